package bars

import (
	"context"
	"path/filepath"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
)

// create measures durable creations. wrk sends the same URL again and again, and each request
// makes a new link.
func create() *experiment.Experiment {
	return define("create", "Durable creations",
		"64 connections create links as fast as the server answers, beside a bare echo handler that parses and writes the same JSON and stores nothing. "+
			"Every answer must have left a row in the database.",
		[]bar{
			{name: "creations, SQLite", unit: measure.PerSecond, versus: "bare echo", least: 0.55,
				text: "On SQLite (synchronous=FULL) the server creates at least 0.55 times as many links per second as a bare echo handler answers."},
			{name: "creations, PostgreSQL", unit: measure.PerSecond, versus: "bare echo", least: 0.50,
				text: "On PostgreSQL (synchronous_commit=on) with Redis the server creates at least 0.50 times as many links per second as a bare echo handler answers."},
		},
		func(t *experiment.T, r *record) {
			bare := measure.BareServer(t)
			file := "sqlite:" + filepath.Join(t.TempDir(), "create.db")
			database := lab.Postgres(t).URL
			embedded := creations(t, "SQLite", file)
			postgres := creations(t, "PostgreSQL", database, "REDIS_URL="+lab.Redis(t).URL)
			echo := measure.Wrk{URL: bare + "/shorten", Script: "post", Args: []string{keyBody}, Duration: each}
			figures := alternate(t, echo.Subject("bare echo"), embedded, postgres)
			r.put("creations, SQLite", figures[1], figures[0])
			r.put("creations, PostgreSQL", figures[2], figures[0])
		})
}

// creations is a server of its own under creations. Each must leave a row.
func creations(t *experiment.T, name, database string, settings ...string) measure.Subject {
	server := lab.Server(t, append(settings, "DATABASE_URL="+database)...)
	server.Start()
	t.Must(measure.Creation(server.Public, keyBody).Try(t.Context()))
	load := measure.Wrk{URL: server.Public + "/shorten", Script: "post", Args: []string{keyBody}, Duration: each}
	load.Check = counted(t, "are stored", func(ctx context.Context) (int64, error) { return lab.CountLinks(ctx, database) })
	return load.Subject(name)
}

// redirect measures redirects of a link that is in the cache.
func redirect() *experiment.Experiment {
	return define("redirect", "Redirects from the cache",
		"64 connections follow one link as fast as the server answers, beside a bare echo handler that redirects. nginx with `return 302` is a yardstick.",
		[]bar{
			{name: "redirects, in the cache", unit: measure.PerSecond, versus: "bare echo", least: 0.95,
				text: "The server follows a cached link at least 0.95 times as often per second as a bare echo handler redirects."},
			{name: "redirects, nginx with return 302", unit: measure.PerSecond, versus: "bare echo"},
		},
		func(t *experiment.T, r *record) {
			bare, server := measure.BareServer(t), withAlias(t)
			get := func(url string) measure.Wrk {
				return measure.Wrk{URL: url + "/alias", Script: "get", Duration: each}
			}
			cached := get(server.Public)
			cached.Check = redirectsCounted(t, server)
			subjects := []measure.Subject{get(bare).Subject("bare echo"), cached.Subject("Keypool")}
			if lab.Installed("nginx") {
				subjects = append(subjects, get(measure.Nginx(t)).Subject("nginx"))
			}
			figures := alternate(t, subjects...)
			r.put("redirects, in the cache", figures[1], figures[0])
			if len(figures) > 2 {
				r.put("redirects, nginx with return 302", figures[2], figures[0])
			}
		})
}

// memory measures what an idle embedded server has resident.
func memory() *experiment.Experiment {
	const rest = 5 * time.Second
	return define("memory", "Memory at rest",
		"The embedded server fills its pool, makes and follows one link, and is then left alone for five seconds.",
		[]bar{{name: "memory at rest, embedded", unit: "MiB", most: 30, text: "The idle embedded server has at most 30 MiB resident."}},
		func(t *experiment.T, r *record) {
			r.repeat(rounds, func() map[string]float64 {
				server := withAlias(t)
				defer server.Kill()
				lab.Wait(t, lab.Patience, "the pool is full", func() bool { return server.Status().State == "ok" })
				lab.Pause(t, rest)
				return map[string]float64{"memory at rest, embedded": float64(server.Memory().Resident) / mebi}
			})
		})
}

// start measures the time from the start of the embedded server's process to its first link.
func start() *experiment.Experiment {
	return define("start", "First link after the start",
		"The embedded server starts without a database, and a client tries to create a link every 10 ms. The start over a full database is with the large databases.",
		[]bar{{name: "start, no database", unit: "ms", most: 100, note: "a client tries every 10 ms, so the time may be that much shorter",
			text: "From exec to the first 201 the embedded server takes at most 100 ms."}},
		func(t *experiment.T, r *record) { firstLinks(t, r, "start, no database") })
}

// firstLinks measures the time from exec to the first link in ms, once in each round.
func firstLinks(t *experiment.T, r *record, name string, settings ...string) {
	r.repeat(rounds, func() map[string]float64 {
		server := lab.Server(t, settings...)
		defer server.Kill()
		begun := time.Now()
		server.Launch()
		lab.Wait(t, lab.Patience, "a link is created", func() bool {
			return measure.Creation(server.Public, keyBody).Try(t.Context()) == nil
		})
		return map[string]float64{name: float64(time.Since(begun).Microseconds()) / 1000}
	})
}
