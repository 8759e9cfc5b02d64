//go:build drill

package drill

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"keypool/internal/testenv"
	"keypool/loadtest"
)

// A standby that lags behind takes the place of a primary that died.
func postgresFailsOver(d *drill) {
	primary := testenv.StartPostgres(d)
	server := newForgetful(d, primary.URL)
	standby := testenv.StartStandby(d, primary)
	server.settings = append(server.settings, "DATABASE_URL="+bothURL(d, primary, standby))
	server.restart()
	stopStreaming(d, standby)
	forget(d, server, postgresCensus(standby.URL), func() {
		primary.Kill()
		standby.Promote()
	})
	server.audit()
}

// Postgres is restored from a copy of its files, without a word to anybody: it is the
// same server still, in the same history. The pool knows better.
func postgresRestored(d *drill) {
	postgres := testenv.StartPostgres(d)
	server := newForgetful(d, postgres.URL)
	data := filepath.Join(postgres.Dir(), "data")
	postgres.Stop()
	copied := copyTree(d, data)
	postgres.Restart()
	forget(d, server, postgresCensus(postgres.URL), func() {
		server.stop() // so that none of its processes remembers
		postgres.Stop()
		if err := os.RemoveAll(data); err != nil {
			d.Fatal(err)
		}
		if err := os.Rename(copied, data); err != nil {
			d.Fatal(err)
		}
		postgres.Restart()
		server.start()
	})
	server.audit()
}

// stopStreaming keeps a standby where it is from now on.
func stopStreaming(d *drill, standby *testenv.Server) {
	d.Helper()
	db, err := sql.Open("pgx", standby.URL)
	if err != nil {
		d.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{`ALTER SYSTEM SET primary_conninfo = ''`, `SELECT pg_reload_conf()`} {
		if _, err := db.ExecContext(d.Context(), statement); err != nil {
			d.Fatal(err)
		}
	}
	await(d, patient, "the standby has left its primary", func() bool {
		var n int
		err := db.QueryRowContext(d.Context(), `SELECT count(*) FROM pg_stat_wal_receiver`).Scan(&n)
		return err == nil && n == 0
	})
}

// newForgetful is a running server with a pool so small that it is filled all the time.
func newForgetful(d *drill, database string) *service {
	d.Helper()
	redis := testenv.StartRedis(d)
	server := newServer(d, "DATABASE_URL="+database, "REDIS_URL="+redis.URL,
		"KGS_POOL_CAPACITY=1000", "KGS_BATCH_MAX=200")
	server.start()
	await(d, patient, "the pool is full", func() bool { return server.status().full() })
	return server
}

// forget makes links that the database does not know of any more after comeBack, and
// then others: a code that was promised must not be given away again, although nobody
// remembers it.
func forget(d *drill, server *service, census loadtest.Census, comeBack func()) {
	d.Helper()
	const rate = 500
	lost, kept := newTraffic(d, server), newTraffic(d, server)
	lost.during(rate, d.lasting(20*time.Second)+time.Second)
	comeBack()
	d.struck(1)
	await(d, patient, "links are made again", func() bool {
		return server.client.Create(d.Context(), "https://example.com/again").State == loadtest.Acknowledged
	})
	// Long enough for the pool to turn over several times.
	kept.during(rate, d.lasting(20*time.Second)+10*time.Second)
	server.restart()
	judge(d, server, nil, kept)
	forgotten := neverReissued(d, census, lost, kept)
	d.note("%d acknowledged links were lost with the old primary, none of their codes came back", forgotten)
}

// neverReissued fails when a code of lost was acknowledged again, or is another link in
// the database, and gives how many of them the database does not know of.
func neverReissued(d *drill, census loadtest.Census, lost, kept *traffic) (forgotten int) {
	d.Helper()
	stored := make(map[string]string)
	if err := census(d.Context(), func(code, url string) { stored[code] = url }); err != nil {
		d.Fatal(err)
	}
	again := make(map[string]string)
	for _, e := range kept.journal.Entries() {
		if e.State == loadtest.Acknowledged {
			again[e.Code] = e.URL
		}
	}
	for _, e := range lost.journal.Entries() {
		if e.State != loadtest.Acknowledged {
			continue
		}
		if url, ok := again[e.Code]; ok {
			d.Errorf("%s was acknowledged for %s, and again for %s", e.Code, e.URL, url)
		}
		switch url, ok := stored[e.Code]; {
		case !ok:
			forgotten++
		case url != e.URL:
			d.Errorf("%s, acknowledged for %s, is stored for %s", e.Code, e.URL, url)
		}
	}
	if forgotten == 0 {
		d.Errorf("nothing was lost: the fault was none")
	}
	return forgotten
}

// bothURL is the URL of whichever of two servers takes writes.
func bothURL(d *drill, a, b *testenv.Server) string {
	d.Helper()
	u, err := url.Parse(a.URL)
	if err != nil {
		d.Fatal(err)
	}
	return strings.Replace(a.URL, u.Host, fmt.Sprintf("%s,%s", a.Addr, b.Addr), 1) + "&target_session_attrs=read-write"
}

// copyTree copies a directory beside itself, owners and modes included.
func copyTree(d *drill, dir string) (copied string) {
	d.Helper()
	copied = dir + ".copy"
	if out, err := exec.CommandContext(d.Context(), "cp", "-a", dir, copied).CombinedOutput(); err != nil {
		d.Fatalf("copy %s: %v: %s", dir, err, out)
	}
	return copied
}
