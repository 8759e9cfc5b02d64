package bars

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
)

// create measures durable creations. wrk sends the same URL in every request, and each request makes
// a new link.
func create() *experiment.Experiment {
	return define("create", "Durable creations",
		"64 connections create links as fast as the server answers. One baseline is a bare handler of the web framework Echo that parses and writes the same JSON and stores nothing. "+
			"The other baseline is the handler and the group commit of Keypool with a file instead of a database: each commit appends its links with one write and one fdatasync. "+
			"Every acknowledged creation must have a row in the database.",
		[]bar{
			{name: "creations, SQLite", unit: measure.PerSecond, versus: "bare Echo", least: 0.55,
				text: "On SQLite (synchronous=FULL), the rate of creations is at least 0.55 times the rate of requests to a bare Echo handler."},
			{name: "creations, PostgreSQL", unit: measure.PerSecond, versus: "bare Echo", least: 0.50,
				text: "On PostgreSQL (synchronous_commit=on) with Redis, the rate of creations is at least 0.50 times the rate of requests to a bare Echo handler."},
			{name: "creations, SQLite against the log", unit: measure.PerSecond, versus: "a bare durable log", least: 0.80,
				text: "On SQLite (synchronous=FULL), the rate of creations is at least 0.80 times the rate of creations that are only appended to a file."},
			{name: "creations, PostgreSQL against the log", unit: measure.PerSecond, versus: "a bare durable log"},
			{name: "bytes written for a link, SQLite", unit: "bytes", most: 1090, note: "the process writes these bytes for the write-ahead log of SQLite and for the checkpoints, which copy this log into the database file; the figure was 4,360 bytes when links were stored in the order of their codes",
				text: "The embedded server writes at most 1,090 bytes to the disk for each link. This is a quarter of the bytes that it wrote when links were stored in the order of their codes."},
			{name: "log bytes of a link, PostgreSQL", unit: "bytes", most: 303, note: "the figure contains only the write-ahead log; it was 505 bytes when links were stored in the order of their codes",
				text: "PostgreSQL writes at most 303 bytes of log for each link. This is 0.6 times the bytes that it wrote when links were stored in the order of their codes."},
		},
		func(t *experiment.T, r *record) {
			bare := measure.BareServer(t)
			file := "sqlite:" + filepath.Join(t.TempDir(), "create.db")
			database := lab.Postgres(t).URL
			embedded, server := creations(t, "SQLite", file)
			postgres, _ := creations(t, "PostgreSQL", database, "REDIS_URL="+lab.Redis(t).URL)
			var written, logged measure.Series
			embedded = perLink(embedded, file, &written, func(context.Context) (int64, error) { return server.Written(), nil })
			postgres = perLink(postgres, database, &logged, func(ctx context.Context) (int64, error) { return lab.LogPosition(ctx, database) })
			request := measure.Wrk{Script: "post", Args: []string{keyBody}, Duration: each}
			echo, appended := request, request
			echo.URL, appended.URL = bare+"/shorten", durableLog(t)+"/shorten"
			figures := alternate(t, echo.Subject("bare Echo"), appended.Subject("bare durable log"), embedded, postgres)
			r.put("creations, SQLite", figures[2], figures[0])
			r.put("creations, PostgreSQL", figures[3], figures[0])
			r.put("creations, SQLite against the log", figures[2], figures[1])
			r.put("creations, PostgreSQL against the log", figures[3], figures[1])
			r.put("bytes written for a link, SQLite", written, nil)
			r.put("log bytes of a link, PostgreSQL", logged, nil)
		})
}

// creations starts a server and returns a load of creations on it. Each creation must leave a row.
func creations(t *experiment.T, name, database string, settings ...string) (measure.Subject, *lab.Program) {
	server := lab.Server(t, append(settings, "DATABASE_URL="+database)...)
	server.Start()
	t.Must(measure.TryCreation(t.Context(), server.Public, keyBody))
	load := measure.Wrk{URL: server.Public + "/shorten", Script: "post", Args: []string{keyBody}, Duration: each}
	load.Check = counted(t, "left a row in the database", func(ctx context.Context) (int64, error) { return lab.CountLinks(ctx, database) })
	return load.Subject(name), server
}

// perLink returns load with a further measurement. The function bytes reads a counter. After each round, the measurement
// divides the growth of this counter by the number of new links, and appends the quotient to series.
func perLink(load measure.Subject, database string, series *measure.Series, bytes func(context.Context) (int64, error)) measure.Subject {
	run := load.Measure
	load.Measure = func(ctx context.Context) (perSecond float64, err error) {
		read := func() (total, links int64) {
			var first, second error
			total, first = bytes(ctx)
			links, second = lab.CountLinks(ctx, database)
			err = errors.Join(err, first, second)
			return total, links
		}
		before, old := read()
		if err != nil {
			return 0, err
		}
		if perSecond, err = run(ctx); err != nil {
			return 0, err
		}
		after, all := read()
		if err == nil && all > old {
			*series = append(*series, float64(after-before)/float64(all-old))
		}
		return perSecond, err
	}
	return load
}

// redirect measures redirects of a link that is in the cache.
func redirect() *experiment.Experiment {
	return define("redirect", "Redirects from the cache",
		"64 connections follow one link as fast as the server answers. The baseline is a bare handler of the web framework Echo that redirects. nginx with `return 302` is measured for comparison only.",
		[]bar{
			{name: "redirects, in the cache", unit: measure.PerSecond, versus: "bare Echo", least: 0.95,
				text: "The rate of redirects of a cached link is at least 0.95 times the rate of a bare Echo handler that redirects."},
			{name: "redirects, nginx with return 302", unit: measure.PerSecond, versus: "bare Echo"},
		},
		func(t *experiment.T, r *record) {
			bare, server := measure.BareServer(t), withAlias(t)
			get := func(url string) measure.Wrk {
				return measure.Wrk{URL: url + "/alias", Script: "get", Duration: each}
			}
			cached := get(server.Public)
			cached.Check = redirectsCounted(t, server)
			subjects := []measure.Subject{get(bare).Subject("bare Echo"), cached.Subject("Keypool")}
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

// memory measures the resident memory of an idle embedded server.
func memory() *experiment.Experiment {
	const rest = 5 * time.Second
	return define("memory", "Memory at rest",
		"A client creates and follows one link. When the pool of the embedded server is full, the server gets no requests for five seconds.",
		[]bar{{name: "memory at rest, embedded", unit: "MiB", most: 30, text: "The resident memory of the idle embedded server is at most 30 MiB."}},
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
		"The embedded server starts without a database file and creates the file. A client tries to create a link every 10 ms. The experiments with large databases measure the start with many links.",
		[]bar{{name: "start, no database", unit: "ms", most: 100, note: "a client tries every 10 ms, so the real time may be up to 10 ms shorter",
			text: "The embedded server takes at most 100 ms from exec to the first answer with status 201."}},
		func(t *experiment.T, r *record) { firstLinks(t, r, "start, no database") })
}

// firstLinks measures the time from exec to the first link in milliseconds, once in each round.
func firstLinks(t *experiment.T, r *record, name string, settings ...string) {
	r.repeat(rounds, func() map[string]float64 {
		server := lab.Server(t, settings...)
		defer server.Kill()
		begun := time.Now()
		server.Launch()
		lab.Wait(t, lab.Patience, "a link is created", func() bool {
			return measure.TryCreation(t.Context(), server.Public, keyBody) == nil
		})
		return map[string]float64{name: float64(time.Since(begun).Microseconds()) / 1000}
	})
}
