package bars

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
)

// earlierProgram is the environment variable that names an earlier build of the server.
const earlierProgram = "EARLIER_SHORTENER"

// links measures the cost of owned links and of counting visits. It compares the rate of redirects
// of a server that counts visits with the rate of a server that counts none. It also compares the
// rates of creations with a token and without a token.
func links() *experiment.Experiment {
	bars := []bar{
		{name: "redirects, VISITS=total", unit: measure.PerSecond, versus: "VISITS=off", least: 0.95,
			text: "The rate of redirects with VISITS=total is at least 0.95 times the rate with VISITS=off."},
		{name: "redirects, VISITS=detail", unit: measure.PerSecond, versus: "VISITS=off", least: 0.90,
			note: "each request has a Referer and a User-Agent",
			text: "The rate of redirects with VISITS=detail is at least 0.90 times the rate with VISITS=off."},
		{name: "owned creations, SQLite", unit: measure.PerSecond, versus: "creations without a token", least: 0.85,
			text: "On SQLite, the rate of creations with a token is at least 0.85 times the rate without a token."},
		{name: "owned creations, PostgreSQL", unit: measure.PerSecond, versus: "creations without a token", least: 0.85,
			text: "On PostgreSQL, the rate of creations with a token is at least 0.85 times the rate without a token."},
	}
	return define("links", "Owned links and visits",
		"64 connections follow one link, or create links, as fast as the server answers. The loads that are compared differ in one setting of the server, or in the token of the requests.",
		bars, func(t *experiment.T, r *record) {
			visits(t, r)
			for _, e := range []struct{ name, database string }{
				{"SQLite", "sqlite:" + filepath.Join(t.TempDir(), "owned.db")},
				{"PostgreSQL", lab.Postgres(t).URL},
			} {
				anonymous, server := creations(t, e.name+" without a token", e.database)
				figures := alternate(t, anonymous, owned(t, e.name+" with a token", e.database, server))
				r.put("owned creations, "+e.name, figures[1], figures[0])
			}
		})
}

// visits measures redirects with each value of VISITS.
func visits(t *experiment.T, r *record) {
	var subjects []measure.Subject
	for _, setting := range []string{"VISITS=off", "VISITS=total", "VISITS=detail"} {
		server := withAlias(t, setting)
		load := measure.Wrk{URL: server.Public + "/alias", Script: "get", Duration: each, Check: redirectsCounted(t, server),
			Args: []string{"Referer", "https://example.org/a/page", "User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"}}
		subjects = append(subjects, load.Subject(setting))
	}
	figures := alternate(t, subjects...)
	r.put("redirects, VISITS=total", figures[1], figures[0])
	r.put("redirects, VISITS=detail", figures[2], figures[0])
}

// owned returns a load of creations with a token on the server. Each creation must leave a row.
func owned(t *experiment.T, name, database string, server *lab.Program) measure.Subject {
	load := measure.Wrk{URL: server.Public + "/shorten", Script: "post", Duration: each, Args: []string{keyBody, "Authorization", "Bearer " + token(t, server)}}
	load.Check = counted(t, "left a row of an owned link", func(ctx context.Context) (int64, error) { return lab.CountOwned(ctx, database) })
	return load.Subject(name)
}

// token creates a token with all scopes and without a rate on the database of the server.
func token(t *experiment.T, server *lab.Program) string {
	out, err := lab.Command(t, "shortener", server.Dir, server.Settings, "token", "create", "--name", "bars", "--scope", "admin", "--rate", "off").Output()
	t.Must(err)
	return strings.TrimSpace(string(out))
}

// earlier returns an experiment that compares the rate of creations of this build and of an earlier build of the
// server. The creations have no token. It returns nothing if the environment names no earlier build.
func earlier() []*experiment.Experiment {
	program := os.Getenv(earlierProgram)
	if program == "" {
		return nil
	}
	names := []string{"SQLite", "PostgreSQL"}
	var bars []bar
	for _, name := range names {
		bars = append(bars, bar{name: "creations against an earlier build, " + name, unit: measure.PerSecond, versus: "the earlier build", least: 0.97,
			text: fmt.Sprintf("On %s, the rate of creations without a token is at least 0.97 times the rate of the earlier build.", name)})
	}
	return []*experiment.Experiment{define("earlier", "Creations beside an earlier build",
		"64 connections create links as fast as the server answers, in turn on this build and on an earlier build. Each build has a database of its own on each engine.",
		bars, func(t *experiment.T, r *record) {
			for i, databases := range [][2]string{
				{"sqlite:" + filepath.Join(t.TempDir(), "now.db"), "sqlite:" + filepath.Join(t.TempDir(), "earlier.db")},
				{lab.Postgres(t).URL, lab.Postgres(t).URL},
			} {
				now, _ := creations(t, names[i], databases[0])
				figures := alternate(t, now, startEarlier(t, program, names[i], databases[1]))
				r.put(bars[i].name, figures[0], figures[1])
			}
		})}
}

// startEarlier starts an earlier build of the server and returns a load of creations on it.
func startEarlier(t *experiment.T, program, name, database string) measure.Subject {
	admin, err := lab.FreeAddr()
	t.Must(err)
	url := lab.Other(t, []string{"DATABASE_URL=" + database, "ADMIN_ADDR=" + admin}, func(addr string) (string, []string) {
		return program, []string{"serve", "--listen-addr", addr}
	}, answers)
	t.Must(measure.TryCreation(t.Context(), url, keyBody))
	return measure.Wrk{URL: url + "/shorten", Script: "post", Args: []string{keyBody}, Duration: each}.Subject(name + ", earlier build")
}
