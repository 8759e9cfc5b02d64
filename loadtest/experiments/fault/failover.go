package fault

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/lab"
)

// failoverRows returns the fault rows in which the database continues with older data.
func failoverRows() []row {
	claims := linksOf("later link", "A later link is a link that was acknowledged after the fault.",
		counted("no code reassigned", "reassigned codes", "No code that was acknowledged before the fault is assigned to another URL afterwards, "+
			"even if the database has lost the link of this code."),
		observed(recovers, "Links are created again after the fault."),
	)
	unclosed := append(slices.DeleteFunc(slices.Clone(claims), func(c claim) bool { return c.Name == closed }), keysAreUnique())
	control := without("no code reassigned", "skip-ahead", "floor")
	return []row{
		{
			Name: "fault/17", Title: "PostgreSQL fails over to a lagging standby", Suites: changeToo(),
			Summary: "The primary is killed with SIGKILL, and a standby is promoted. The standby has applied no change since the load began.",
			Run:     inject(postgresFailsOver), Claims: claims, Controls: control,
		},
		{
			Name: "fault/17b", Title: "PostgreSQL files replaced by an older copy",
			Summary: "While all programs are stopped, the files of the database are replaced by an older copy.",
			Run:     inject(postgresRestored), Claims: claims, Controls: control,
		},
		{
			Name: "fault/17c", Title: "SQLite file replaced by an older copy",
			Summary: "The server is killed with SIGKILL, and its SQLite file is replaced by an older copy. The witness beside the file stays.",
			Run:     inject(sqliteRestored), Claims: claims, Controls: without("no code reassigned", "witness"),
		},
		{
			Name: "fault/17d", Title: "PostgreSQL files replaced under a running server with KEY_SOURCE=postgres-pool",
			Summary: "The files of the database, with the pool, are replaced by an older copy. The server keeps running. The copy does not record the keys that the server has in memory, so the accounts do not close.",
			Run:     inject(keyPoolRestored), Claims: unclosed, Controls: without("no code reassigned", "transactions"),
		},
	}
}

// newForgetful starts a PostgreSQL, a Redis and a server. The fault row later rolls PostgreSQL back. The pool is so small
// that the worker refills it all the time.
func newForgetful(r *run) (*lab.Database, *lab.Program) {
	r.use(lab.Postgres(r), lab.DurableRedis(r), "KGS_POOL_CAPACITY=1000", "KGS_BATCH_MAX=200")
	return r.postgres, r.startFull()
}

// postgresFailsOver replaces the primary with a standby that lags.
func postgresFailsOver(r *run) {
	primary, server := newForgetful(r)
	standby := lab.Standby(r, primary)
	// A client of this URL tries both addresses and connects to the server that accepts writes.
	both := strings.Replace(primary.URL, primary.Addr, primary.Addr+","+standby.Addr, 1) + "&target_session_attrs=read-write"
	server.Settings = append(server.Settings, "DATABASE_URL="+both)
	server.Restart()
	stopStreaming(r, standby)
	r.links = standby.URL
	forget(r, server, func() {
		primary.Kill()
		standby.Promote()
	})
	r.audit(server)
}

// postgresRestored replaces the files of PostgreSQL with an older copy. The system identifier and the timeline
// of PostgreSQL do not change, so only the pool shows the rollback.
func postgresRestored(r *run) {
	postgres, server := newForgetful(r)
	restore := copyFiles(r, postgres)
	forget(r, server, func() {
		server.Stop() // so that no process has the high-water mark in memory
		restore()
		server.Start()
	})
	r.audit(server)
}

// keyPoolRestored replaces the files of PostgreSQL with an older copy, in which the pool still has the keys that the server
// has used. Only the server remembers a later state.
func keyPoolRestored(r *run) {
	r.postgres = lab.Postgres(r)
	r.store(r.postgres.URL, "KEY_SOURCE=postgres-pool", "KGS_POOL_CAPACITY=1000", "KGS_BATCH_MAX=200")
	server := r.startFull()
	forget(r, server, copyFiles(r, r.postgres))
	r.sawKeys(lab.Audit(r, server.Settings...))
}

// copyFiles copies the files of PostgreSQL. The function restore replaces the files with the copy.
func copyFiles(r *run, postgres *lab.Database) (restore func()) {
	data := filepath.Join(postgres.Dir(), "data")
	copied := data + ".copy"
	postgres.Stop()
	if out, err := exec.CommandContext(r.Context(), "cp", "-a", data, copied).CombinedOutput(); err != nil {
		r.Fatalf("copy %s: %w: %s", data, err, out)
	}
	postgres.Restart()
	return func() {
		postgres.Stop()
		r.Must(os.RemoveAll(data))
		r.Must(os.Rename(copied, data))
		postgres.Restart()
	}
}

// sqliteRestored replaces the SQLite file with an older copy. No process remembers the high-water mark, and there is no
// Redis, so only the witness shows the rollback.
func sqliteRestored(r *run) {
	r.embedded("KGS_POOL_CAPACITY=1000", "KGS_BATCH_MAX=200")
	server := r.startFull()
	file := strings.TrimPrefix(r.links, "sqlite:")
	server.Stop()
	text, err := os.ReadFile(file)
	r.Must(err)
	server.Start()
	forget(r, server, func() {
		server.Kill()
		r.Must(errors.Join(os.Remove(file+"-wal"), os.Remove(file+"-shm")))
		r.Must(os.WriteFile(file, text, 0o600)) //nolint:gosec // the path comes from the experiment, not from a user
		server.Start()
	})
	r.audit(server)
}

// stopStreaming disconnects a standby from its primary, so that the standby applies no further changes.
func stopStreaming(r *run, standby *lab.Database) {
	lab.Execute(r, standby.URL, `ALTER SYSTEM SET primary_conninfo = ''`)
	lab.Execute(r, standby.URL, `SELECT pg_reload_conf()`)
	lab.Wait(r, patient, "the standby is disconnected from its primary", func() bool {
		receivers, err := lab.TryValue[int](r.Context(), standby.URL, `SELECT count(*) FROM pg_stat_wal_receiver`)
		return err == nil && receivers == 0
	})
}

// forget creates links, calls rollBack, and creates further links. After rollBack, the database at r.links
// must lack at least one of the first links.
func forget(r *run, server *lab.Program, rollBack func()) {
	const rate = 500
	before, after := r.traffic(server), r.traffic(server)
	// The load must also use keys whose numbers the ledger reserves during the load. The pool and the batches have at most
	// about 2,200 keys when the load begins, and the load creates at least 2,500 links.
	r.during(before, rate, r.Lasting(20*time.Second)+5*time.Second)
	rollBack()
	r.strike(1)
	r.becomes(recovers, "the end of the fault", "a link is created", func() bool {
		return server.Client.Create(r.Context(), "https://example.com/again").State == loadtest.Acknowledged
	})
	// The load lasts until all keys of the pool have been replaced several times.
	r.during(after, rate, r.Lasting(20*time.Second)+10*time.Second)
	server.Restart()
	r.sawLinks(lab.Check(r, server, lab.Census(r.links), after))
	sawNoCodeAgain(r, before, after)
}

// sawNoCodeAgain counts the codes that were acknowledged before the fault and now belong to another URL. This
// URL is either in the database or in a creation that was acknowledged after the fault.
func sawNoCodeAgain(r *run, before, after *lab.Load) {
	given := make(map[string]string) // URL by code
	r.Must(lab.Census(r.links)(r.Context(), func(code, url string) { given[code] = url }))
	for _, e := range acknowledged(after) {
		given[e.Code] = e.URL
	}
	forgotten, again, last := 0, 0, ""
	for _, e := range acknowledged(before) {
		switch url, known := given[e.Code]; {
		case !known:
			forgotten++
		case url != e.URL:
			again++
			last = fmt.Sprintf("%q leads to another URL", e.Code)
		}
	}
	if forgotten+again == 0 {
		r.Fatalf("the database has lost no link, so the fault row proves nothing")
	}
	r.figure("no code reassigned", 0, float64(again), "%d acknowledged codes have lost their links, and %d acknowledged codes lead to another URL%s",
		forgotten, again, example(last))
}

// acknowledged returns the acknowledged creations of a load.
func acknowledged(load *lab.Load) []loadtest.Entry {
	return slices.DeleteFunc(load.Entries(), func(e loadtest.Entry) bool { return e.State != loadtest.Acknowledged })
}
