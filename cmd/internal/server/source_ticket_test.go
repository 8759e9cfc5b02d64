package server

import (
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"keypool/cmd/internal/config"
	"keypool/internal/testenv"
	"keypool/internal/testenv/logbuffer"
	"keypool/kgs/codespace"
	"keypool/migrations"
	"keypool/web/admin"
)

// ticketSettings returns the settings of a server with these ticket databases.
func ticketSettings(t *testing.T, urls string) config.Server {
	t.Helper()
	return settings(t, sqliteURL(t), "", "--key-source=ticket", "--ticket-database-urls="+urls)
}

// wantTickets creates links until the server has used numbers of all given parities: 0 for even
// numbers, 1 for odd ones. No code may be assigned twice.
func (r *running) wantTickets(seen map[string]bool, parities ...int64) {
	r.t.Helper()
	missing := make(map[int64]bool)
	for _, p := range parities {
		missing[p] = true
	}
	r.await("tickets from every database", func(admin.Status) bool {
		code := r.shorten("https://go.dev/")
		if seen[code] {
			r.t.Fatalf("the code %s was assigned twice", code)
		}
		seen[code] = true
		_, n, err := codespace.Plain().Number(code)
		if err == nil && n < 10_000 { // a larger number belongs to a random code: on a busy machine, the fallback may serve
			delete(missing, n%2)
		}
		return len(missing) == 0
	})
}

func TestSeparateTicketDatabasesIssueOddAndEvenNumbers(t *testing.T) {
	t.Parallel()
	odd, even := sqliteURL(t), testenv.PostgresURL(t)
	s := ticketSettings(t, odd+","+even)
	s.Migrate.On = false
	// Migrate the database of the links, because MIGRATE=false also applies to it.
	if status, out := command(t, "sqlite:"+s.Database.SQLitePath, "migrate"); status != 0 {
		t.Fatalf("migrate: %d, %s", status, out)
	}
	if _, err := Start(t.Context(), s, slog.New(slog.DiscardHandler)); !errors.Is(err, migrations.ErrOlderSchema) {
		t.Errorf("started with MIGRATE=false on a ticket database without tables: %v", err)
	}
	s.Migrate.On = true
	seen := make(map[string]bool)
	for range 2 {
		r := start(t, s)
		r.wantTickets(seen, 0, 1)
		r.stop()
		// Exchange the databases. Each one now issues numbers that the other has issued. These numbers
		// conflict with existing links, and after a conflict the server advances the counter by a larger
		// step.
		s.Tickets[0], s.Tickets[1] = s.Tickets[1], s.Tickets[0]
	}
}

func TestServerCreatesLinksWhileOneTicketDatabaseIsUnreachable(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	s := ticketSettings(t, server.URL+","+sqliteURL(t))
	server.Stop()
	var log logbuffer.Buffer
	r := startLogging(t, s, &log)
	seen := make(map[string]bool)
	r.wantTickets(seen, 0)
	r.await("a closed breaker while one database serves", func(s admin.Status) bool {
		r.wantTickets(seen, 0)
		return *s.Breaker == "closed" && *s.ServingFrom == "batch"
	})
	server.Restart() // the program shortener then migrates the ticket database
	r.wantTickets(seen, 1)
	r.await("a log line about the migration", func(admin.Status) bool { return strings.Contains(log.String(), "migrated a ticket database") })
	if n := strings.Count(log.String(), "ticket database"); n != 2 {
		t.Errorf("the log has %d lines about the ticket database, want one for the outage and one for its end:\n%s", n, log.String())
	}
}

// If a ticket database rejects the connection, the setting is wrong and the start fails.
func TestStartFailsIfTicketDatabaseRejectsConnection(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for what, change := range map[string]func(*url.URL){
		"no such role":     func(u *url.URL) { u.User = url.UserPassword("role_of_the_tests", secret) },
		"no such database": func(u *url.URL) { u.Path = "/database_of_the_tests" },
	} {
		u, err := url.Parse(testenv.PostgresURL(t))
		if err != nil {
			t.Fatal(err)
		}
		change(u)
		p, err := Start(t.Context(), ticketSettings(t, sqliteURL(t)+","+u.String()), slog.New(slog.DiscardHandler))
		if err == nil {
			err = p.Stop()
		}
		var setting *config.Error
		if !errors.As(err, &setting) || setting.Name != "TICKET_DATABASE_URLS" || !strings.Contains(setting.Got, "of_the_tests") ||
			strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v; want a config.Error with the message of the server and without the password", what, err)
		}
	}
}

func TestFallbackServesWhileTicketDatabasesAreDown(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	r := start(t, ticketSettings(t, server.URL+","+server.URL))
	seen := make(map[string]bool)
	r.wantTickets(seen, 0, 1)
	server.Kill()
	r.await("the fallback, and open breakers", func(s admin.Status) bool {
		r.shorten("https://go.dev/")
		return *s.ServingFrom == "fallback" && *s.Breaker == "open"
	})
	server.Restart()
	r.wantTickets(seen, 0, 1)
}
