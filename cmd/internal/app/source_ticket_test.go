package app

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/migrations"
	"keypool/web/admin"
)

// ticketSettings are those of a server whose ticket databases are its own.
func ticketSettings(t *testing.T, urls string) ServeSettings {
	t.Helper()
	var p parser
	s := settings(t, sqliteURL(t), "")
	s.KeySource = "ticket"
	if s.Tickets = p.databases("TICKET_DATABASE_URLS", urls, s.Database); p.err != nil {
		t.Fatal(p.err)
	}
	return s
}

// wantTickets makes links until there were numbers of all the given parities. None may be
// given twice.
func (r *running) wantTickets(seen map[string]bool, parities ...int64) {
	r.t.Helper()
	missing := make(map[int64]bool)
	for _, p := range parities {
		missing[p] = true
	}
	r.await("tickets from every database", func(admin.Status) bool {
		code := r.shorten("https://go.dev/")
		if seen[code] {
			r.t.Fatalf("the code %s was given twice", code)
		}
		seen[code] = true
		_, n, err := kgs.PlainSpace().Number(code)
		if err == nil && n < 10_000 { // else it is one of the fallback, on a busy machine
			delete(missing, n%2)
		}
		return len(missing) == 0
	})
}

func TestTicketDatabasesOfTheirOwn(t *testing.T) {
	t.Parallel()
	odd, even := sqliteURL(t), testenv.PostgresURL(t)
	s := ticketSettings(t, odd+","+even)
	s.Migrate = false
	// The database of the links, which is not migrated either, comes first.
	if status, out := command(t, "sqlite:"+s.Database.sqlitePath, "migrate"); status != 0 {
		t.Fatalf("migrate: %d, %s", status, out)
	}
	if _, err := StartServer(t.Context(), s, slog.New(slog.DiscardHandler)); !errors.Is(err, migrations.ErrOlderSchema) {
		t.Errorf("started with MIGRATE=false on a ticket database without tables: %v", err)
	}
	s.Migrate = true
	seen := make(map[string]bool)
	for range 2 {
		r := start(t, s)
		r.wantTickets(seen, 0, 1)
		r.stop()
		// Exchanged, each of them counts what the other one did, and finds its way.
		s.Tickets[0], s.Tickets[1] = s.Tickets[1], s.Tickets[0]
	}
}

// A ticket database that is away, also for the start, is done without.
func TestTicketDatabaseIsAway(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	s := ticketSettings(t, server.URL+","+sqliteURL(t))
	server.Stop()
	var log lockedBuffer
	r := startLogging(t, s, &log)
	seen := make(map[string]bool)
	r.wantTickets(seen, 0)
	r.await("a closed breaker while one database serves", func(s admin.Status) bool {
		r.wantTickets(seen, 0)
		return *s.Breaker == "closed" && *s.ServingFrom == "batch"
	})
	server.Restart() // and is migrated
	r.wantTickets(seen, 1)
	r.await("word that it is back", func(admin.Status) bool { return strings.Contains(log.String(), "is back and migrated") })
	if n := strings.Count(log.String(), "a ticket database is"); n != 2 {
		t.Errorf("%d lines of a ticket database that was away and came back:\n%s", n, log.String())
	}
}

// A ticket database that is there and keeps the server out is no outage.
func TestTicketDatabaseThatKeepsOutIsRefused(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for what, change := range map[string]func(*url.URL){
		"no such role":     func(u *url.URL) { u.User = url.UserPassword("nobody_of_the_tests", secret) },
		"no such database": func(u *url.URL) { u.Path = "/none_of_the_tests" },
	} {
		u, err := url.Parse(testenv.PostgresURL(t))
		if err != nil {
			t.Fatal(err)
		}
		change(u)
		p, err := StartServer(t.Context(), ticketSettings(t, sqliteURL(t)+","+u.String()), slog.New(slog.DiscardHandler))
		if err == nil {
			err = p.Stop()
		}
		var setting *SettingError
		if !errors.As(err, &setting) || setting.Name != "TICKET_DATABASE_URLS" || !strings.Contains(setting.Got, "of_the_tests") ||
			strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v; want a SettingError that says what the server says", what, err)
		}
	}
}

// Tickets of the server's own database go over connections that are there. Only another one
// takes more.
func TestTicketsOfTheServersOwnDatabase(t *testing.T) {
	t.Parallel()
	s := settings(t, testenv.PostgresURL(t), "")
	life := &lifecycle{}
	c, err := openCore(t.Context(), s.Settings, life, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := life.stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	ch := &chain{core: c, settings: s}
	for _, tt := range []struct {
		url    databaseURL
		opened int
	}{{s.Tickets[0], 0}, {databaseURL{postgres: s.Database.postgres.Copy()}, 1}} {
		before := len(life.steps)
		db, err := ch.ticketDatabase(t.Context(), tt.url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Take(t.Context(), kgs.Odd, 1); err != nil {
			t.Error(err)
		}
		if got := len(life.steps) - before; got != tt.opened {
			t.Errorf("opened %d pools of connections, want %d", got, tt.opened)
		}
	}
}

// With both of them away the fallback serves.
func TestTicketDatabasesAreAway(t *testing.T) {
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
