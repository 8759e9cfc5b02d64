package fault

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"keypool/internal/proc"
	"keypool/loadtest/lab"
)

// startRows returns the fault rows in which several processes start or end at the same moment. It also returns the
// fault row that searches the shipped programs for failpoints.
func startRows() []row {
	started := []claim{
		observed("migrations succeed", "Every `shortener migrate` ends with status 0."),
		observed("servers become ready", "Every server becomes ready."),
		observed("links redirect on other servers", "A link that was just created on one server redirects on another server."),
		accountsClose(),
	}
	return []row{
		{
			Name: "fault/start", Title: "16 servers start on an empty SQLite file", Alone: true,
			Summary: "16 servers and 16 migrations start at the same moment.",
			Run:     inject(func(r *run) { r.embedded("KGS_POOL_CAPACITY=1000"); startTogether(r) }), Claims: started,
		},
		{
			Name: "fault/startb", Title: "16 servers start on an empty PostgreSQL database", Alone: true,
			Summary: "16 servers and 16 migrations start at the same moment.",
			Run: inject(func(r *run) {
				r.store(lab.Postgres(r, manyConnections).URL, "KGS_POOL_CAPACITY=1000")
				startTogether(r)
			}), Claims: started,
		},
		{
			Name: "fault/2x2", Title: "one of two servers and one of two workers killed",
			Summary: "Two servers and two workers share a PostgreSQL and a Redis. One server and one worker are killed with SIGKILL under load and started again later.",
			Run:     inject(twoByTwo),
			Claims: theLinks(
				noneFails("on the server that keeps running, although a worker is killed too"),
				uninterrupted("no refusal by the killed server", "refused creations", "The server that is killed refuses no creation while it runs."),
				observed("links redirect on other servers", "A link that was just created on one server redirects on the other server."),
				observed(recovers, "The pool is full again."),
			),
		},
		{
			Name: "fault/shipped", Title: "no failpoints in the shipped programs", Summary: "The shipped programs are searched for the name of the setting KEYPOOL_FAILPOINTS, with which other rows inject crashes.",
			Run: inject(shipped), Controls: without("no failpoints", "commit"), // the programs of a control contain failpoints
			Claims: []claim{observed("no failpoints", "The shipped programs contain no failpoints: "+
				"the name of the setting that makes a program crash at a failpoint does not occur in them.")},
		},
	}
}

// shipped searches the shipped programs for the setting that enables failpoints.
func shipped(r *run) {
	r.strike(1)
	for _, program := range []string{"shortener", "kgs"} {
		text, err := os.ReadFile(filepath.Join(r.ProgramDir(), program))
		r.Must(err)
		found := bytes.Count(text, []byte("KEYPOOL_FAILPOINTS"))
		r.saw("no failpoints", found == 0, "%s contains the text KEYPOOL_FAILPOINTS %d times", program, found)
	}
}

// startTogether starts servers and migrations at the same moment on an empty database. The rows that call startTogether run
// alone, because other experiments would slow the starts, and a start has a time limit.
func startTogether(r *run) {
	var servers []*lab.Program
	var migrations []*proc.Process
	for range together {
		server := r.server()
		migrations = append(migrations, server.Begin("migrate"))
		server.Launch()
		servers = append(servers, server)
	}
	r.strike(1)
	for _, m := range migrations {
		status, err := m.Exit(patient)
		failure := ""
		if err != nil {
			failure = fmt.Sprintf(" and the error %v", err)
		}
		r.saw("migrations succeed", err == nil && status == 0, "`shortener migrate` ended with status %d%s", status, failure)
	}
	for _, s := range servers {
		ready := lab.Happens(r, patient, func() bool { return s.Ended() || s.TryReady(r.Context()) == nil })
		state, log := "is ready", ""
		switch {
		case s.Ended():
			state, log = "has ended", "; its log:\n"+s.Tail()
		case !ready:
			state, log = "is not ready", "; its log:\n"+s.Tail()
		}
		r.must("servers become ready", state == "is ready", "after a wait of at most %v, a server %s%s", patient, state, log)
	}
	for i := range servers {
		followElsewhere(r, servers[i], servers[(i+1)%len(servers)], 2)
	}
	r.audit(servers[0])
	each(servers, (*lab.Program).Stop)
	r.audit(servers[0])
}

// followElsewhere creates n links on the servers a and b in turn. It follows each link immediately on the
// server that did not create it.
func followElsewhere(r *run, a, b *lab.Program, n int) {
	for range n {
		url := "https://example.com/" + rand.Text()
		r.follow("links redirect on other servers", b, r.link(a, url), url)
		a, b = b, a
	}
}

// twoByTwo kills one of two servers and one of two workers, and starts them again.
func twoByTwo(r *run) {
	const rate = 250                      // creations per second on each server
	r.databases("KGS_POOL_CAPACITY=5000") // the pool is small, so that the workers refill it all the time
	servers, workers := pairs(r)
	r.awaitFull(servers[0])
	survivor, victim := r.start(servers[0], rate), r.start(servers[1], rate)
	followElsewhere(r, servers[0], servers[1], r.Times(200))
	lab.Pause(r, r.Lasting(10*time.Second))

	servers[1].Kill()
	workers[1].Kill()
	r.strike(2)
	lab.Pause(r, r.Lasting(10*time.Second))
	servers[1].Start()
	workers[1].Start()
	victim.AwaitMore(1)
	followElsewhere(r, servers[0], servers[1], r.Times(200))
	lab.Pause(r, r.Lasting(10*time.Second))

	r.serve(survivor)
	f := r.stop(victim)
	r.figure("no refusal by the killed server", 0, float64(f.Refused), "the killed server refused %d creations and acknowledged %d creations while it ran", f.Refused, f.Acknowledged)
	r.refills(servers[0], "the end of the loads")
	r.audit(servers[0]) // this audit runs while the workers run
	each(workers, (*lab.Program).Stop)
	r.end(servers...)
}
