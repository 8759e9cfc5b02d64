package fault

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/lab"
)

// startRows are what several processes do at once.
func startRows() []row {
	started := []claim{
		observed("migrate", "Each `shortener migrate` ends with status 0."),
		observed("ready", "Each server becomes ready."),
		observed("follow", "A link that was just created on one server redirects on the others."),
		accountsClose(),
	}
	return []row{
		{
			Name: "fault/start", Title: "16 servers start on an empty SQLite file", Summary: "16 servers and 16 migrations start at the same moment.",
			Run: inject(func(r *run) { r.embedded("KGS_POOL_CAPACITY=1000"); startTogether(r) }), Claims: started,
		},
		{
			Name: "fault/startb", Title: "16 servers start on an empty PostgreSQL", Summary: "16 servers and 16 migrations start at the same moment.",
			Run: inject(func(r *run) {
				r.store(lab.Postgres(r, manyConnections).URL, "KGS_POOL_CAPACITY=1000")
				startTogether(r)
			}), Claims: started,
		},
		{
			Name: "fault/2x2", Title: "one of two servers and one of two workers killed",
			Summary: "Two servers and two workers share a PostgreSQL and a Redis. One of each is killed with SIGKILL under load and comes back.",
			Run:     inject(twoByTwo),
			Claims: theLinks(
				noneFails("on the server and with the worker that go on"),
				noRefusals("The server that is killed refuses no creation while it runs."),
				observed("follow", "A link that was just created on one server redirects on the other."),
				observed(recovers, "The pool is full again."),
			),
		},
		{
			Name: "fault/shipped", Title: "what users get", Summary: "The programs are searched for the names of what the rows break them with.",
			Run: inject(shipped), Controls: without("no crash points", "commit"), // a program for a control has crash points, too
			Claims: []claim{observed("no crash points", "The shipped programs have no crash points.")},
		},
	}
}

func shipped(r *run) {
	r.strike(1)
	for _, program := range []string{"shortener", "kgs"} {
		text, err := os.ReadFile(filepath.Join(r.ProgramDir(), program))
		r.Must(err)
		knows := bytes.Contains(text, []byte("KEYPOOL_FAILPOINTS"))
		r.saw("no crash points", !knows, "%s knows KEYPOOL_FAILPOINTS: %t", program, knows)
	}
}

func startTogether(r *run) {
	var servers []*lab.Program
	migrations := make(chan error, together)
	for range together {
		server := r.server()
		migrate := server.Command("migrate")
		go func() { migrations <- migrate.Run() }()
		server.Launch()
		servers = append(servers, server)
	}
	r.strike(1)
	for range together {
		err := <-migrations
		r.saw("migrate", err == nil, "error: %v", err)
	}
	for _, s := range servers {
		ready := lab.Happens(r, patient, func() bool { return s.Ended() || s.TryReady(r.Context()) == nil })
		r.must("ready", ready && !s.Ended(), "ready within a minute: %t; ended: %t; its log:\n%s", ready, s.Ended(), s.Tail())
	}
	for i := range servers {
		followElsewhere(r, servers[i], servers[(i+1)%len(servers)], 2)
	}
	r.audit(servers[0])
	each(servers, (*lab.Program).Stop)
	r.audit(servers[0])
}

// followElsewhere creates n links, each on one of two servers, and follows each at once on the
// other.
func followElsewhere(r *run, a, b *lab.Program, n int) {
	for range n {
		url := "https://example.com/" + rand.Text()
		created := a.Client.Create(r.Context(), url)
		r.must("follow", created.State == loadtest.Acknowledged, "created: %+v", created)
		r.follow("follow", b, created.Code, url)
		a, b = b, a
	}
}

func twoByTwo(r *run) {
	const rate = 250                      // per server
	r.databases("KGS_POOL_CAPACITY=5000") // so small that the workers have something to do
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
	r.figure("refusals", 0, float64(f.Refused), "%d refused, %d acknowledged", f.Refused, f.Acknowledged)
	r.refills(servers[0])
	r.audit(servers[0]) // while the workers run
	each(workers, (*lab.Program).Stop)
	r.end(servers...)
}
