package fault

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/lab"

	"github.com/jackc/pgx/v5"
)

// failoverRows are the faults after which PostgreSQL has data of the past.
func failoverRows() []row {
	claims := linksOf("link that was acknowledged after the fault",
		counted("no code again", "codes", "No code that was acknowledged before the fault is given to another URL after it, although the database has forgotten it."),
		observed(recovers, "Links are created again."),
	)
	control := without("no code again", "skip-ahead", "floor")
	return []row{
		{
			Name: "fault/17", Title: "PostgreSQL fails over to a lagging standby", Suites: changeToo(),
			Summary: "The primary is killed with SIGKILL and a standby is promoted that has applied nothing since the load began.",
			Run:     inject(postgresFailsOver), Claims: claims, Controls: control,
		},
		{
			Name: "fault/17b", Title: "PostgreSQL restored from a copy",
			Summary: "While all is down, older files take the place of the database's own.",
			Run:     inject(postgresRestored), Claims: claims, Controls: control,
		},
	}
}

// newForgetful starts a server with a pool so small that it is filled all the time.
func newForgetful(r *run) (*lab.Database, *lab.Program) {
	r.use(lab.Postgres(r), lab.DurableRedis(r), "KGS_POOL_CAPACITY=1000", "KGS_BATCH_MAX=200")
	return r.postgres, r.startFull()
}

func postgresFailsOver(r *run) {
	primary, server := newForgetful(r)
	standby := lab.Standby(r, primary)
	// The URL of that one of the two which takes writes.
	both := strings.Replace(primary.URL, primary.Addr, primary.Addr+","+standby.Addr, 1) + "&target_session_attrs=read-write"
	server.Settings = append(server.Settings, "DATABASE_URL="+both)
	server.Restart()
	stopStreaming(r, standby)
	r.links = standby.URL
	forget(r, server, func() {
		primary.Kill()
		standby.Promote()
	})
}

// PostgreSQL is the same server as before, in the same history. Only the pool shows the rollback.
func postgresRestored(r *run) {
	postgres, server := newForgetful(r)
	data := filepath.Join(postgres.Dir(), "data")
	copied := data + ".copy"
	postgres.Stop()
	if out, err := exec.CommandContext(r.Context(), "cp", "-a", data, copied).CombinedOutput(); err != nil {
		r.Fatalf("copy %s: %w: %s", data, err, out)
	}
	postgres.Restart()
	forget(r, server, func() {
		server.Stop() // so that no process remembers
		postgres.Stop()
		r.Must(os.RemoveAll(data))
		r.Must(os.Rename(copied, data))
		postgres.Restart()
		server.Start()
	})
}

// stopStreaming keeps a standby at the state that it has now.
func stopStreaming(r *run, standby *lab.Database) {
	lab.Execute(r, standby.URL, `ALTER SYSTEM SET primary_conninfo = ''`)
	lab.Execute(r, standby.URL, `SELECT pg_reload_conf()`)
	lab.Wait(r, patient, "the standby has left its primary", func() bool {
		receivers := -1
		err := lab.TryQuery(r.Context(), standby.URL, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_wal_receiver`).Scan(&receivers)
		})
		return err == nil && receivers == 0
	})
}

// forget creates links that the database at r.links has forgotten after comeBack, and then others.
func forget(r *run, server *lab.Program, comeBack func()) {
	const rate = 500
	before, after := r.traffic(server), r.traffic(server)
	r.during(before, rate, r.Lasting(20*time.Second)+time.Second)
	comeBack()
	r.strike(1)
	r.becomes(recovers, "a link is created", func() bool {
		return server.Client.Create(r.Context(), "https://example.com/again").State == loadtest.Acknowledged
	})
	// Long enough for the pool to turn over several times.
	r.during(after, rate, r.Lasting(20*time.Second)+10*time.Second)
	server.Restart()
	r.sawLinks(lab.Check(r, server, nil, after))
	sawNoCodeAgain(r, before, after)
	r.audit(server)
}

// sawNoCodeAgain looks for codes of before that were acknowledged again, or that are another
// link in the database.
func sawNoCodeAgain(r *run, before, after *lab.Load) {
	given := make(map[string]string) // the URL of each code
	r.Must(lab.Census(r.links)(r.Context(), func(code, url string) { given[code] = url }))
	for _, e := range acknowledged(after) {
		given[e.Code] = e.URL
	}
	forgotten, again, example := 0, 0, ""
	for _, e := range acknowledged(before) {
		switch url, known := given[e.Code]; {
		case !known:
			forgotten++
		case url != e.URL:
			again++
			example = e.Code
		}
	}
	if forgotten+again == 0 {
		r.Fatalf("the database has forgotten no link: the row proves nothing")
	}
	r.figure("no code again", 0, float64(again), "%d acknowledged codes are in no link any more; %d codes lead to another URL, such as %q",
		forgotten, again, example)
}

// acknowledged are the creations of a load that were acknowledged.
func acknowledged(load *lab.Load) []loadtest.Entry {
	return slices.DeleteFunc(load.Entries(), func(e loadtest.Entry) bool { return e.State != loadtest.Acknowledged })
}
