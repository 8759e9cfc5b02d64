package fault

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/lab"
)

// databaseRows returns fault rows about the database of the links and the ledger: the database crashes, its reply is
// lost, its clock jumps, or a program has a wrong FF1 key.
func databaseRows() []row {
	return []row{
		{
			Name: "fault/15", Title: "PostgreSQL crashes", Alone: true,
			Summary: "Under load, PostgreSQL is killed with SIGKILL and restarted later. At scale 1, this happens four times, and PostgreSQL is down for 3 s each time.",
			Run:     inject(postgresKilled), Controls: without(kept, "commit", "repeat"),
			Claims: theLinks(
				observed("cached links redirect", "While the database is down, the server still redirects links that are in its cache."),
				observed(refusal, "While the database is down, the server answers every creation with 503 and Retry-After."),
				timed("refusal time", "While the database is down, a creation is refused within 1 s plus the time of the slowest redirect from the cache. The slowest redirect shows how busy the machine is."),
				timed(recoveryTime, "Links are created again within 10 s after PostgreSQL is available again."),
			),
		},
		{
			Name: "fault/16", Title: "lost reply to a commit", Suites: changeToo(),
			Summary: "At every fifth commit of links, a proxy resets the connection between the server and PostgreSQL. " +
				"PostgreSQL's reply to the commit is lost, or cut off after a few bytes.",
			Run: inject(commitReplyLost), Controls: without(once, "repeat"), Claims: theLinks(),
		},
		{
			Name: "fault/21", Title: "wrong FF1 key",
			Summary: "A server and a worker start with a KGS_SECRET that differs from the secret of the ledger. " +
				"A server starts without a KGS_SECRET, and a server starts with KGS_PERMUTE=false.",
			Run: inject(wrongSecret), Controls: without(noStart, "fingerprint"),
			Claims: theLinks(observed(noStart, "The programs refuse to start. They end with status 2, and a log line names the setting.")),
		},
		{
			Name: "fault/22", Title: "clocks of PostgreSQL and Redis jump by an hour",
			Summary: "The clocks of PostgreSQL and Redis jump by an hour, forward and backward, while two servers hold batches and two workers fill the pool.",
			Run:     inject(clocksJump), Controls: without("running processes keep their keys", "heartbeats"),
			Claims: theLinks(noneFails("while the clocks jump"), counted("running processes keep their keys", "abandoned keys", "No key of a running process is abandoned.")),
		},
	}
}

func postgresKilled(r *run) {
	r.databases("KGS_POOL_CAPACITY=100000")
	server := r.startFull()
	load := r.traffic(server)
	// slowest is the longest time of a refusal. hiccup is the longest time of a redirect from the cache, which
	// shows how busy the machine is.
	var slowest, hiccup time.Duration
	for range r.Times(4) {
		load.Start(300)
		load.AwaitMore(int64(100 + r.Times(500)))
		r.postgres.Kill()
		r.strike(1)
		cached := acknowledged(load) // the newest links must be in the server's cache
		cached = cached[max(0, len(cached)-20):]
		for began := time.Now(); time.Since(began) < r.Lasting(2*time.Second)+time.Second; {
			for _, link := range cached {
				hiccup = max(hiccup, r.follow("cached links redirect", server, link.Code, link.URL))
			}
			answer, took, right := refused(r, server)
			slowest = max(slowest, took)
			r.saw(refusal, right, "%s", answer)
		}
		r.stop(load) // the journal of the load contains the refused creations
		r.postgres.Restart()
		back := time.Now()
		load.Start(300)
		lab.Wait(r, patient, "links are created again", func() bool { return load.Figures().Acknowledged > 0 })
		r.took(recoveryTime, 10*time.Second, time.Since(back))
		r.stop(load)
	}
	r.took("refusal time", time.Second+hiccup, slowest)
	r.end(server)
}

// follow requests a short URL, and records for the claim whether the server redirects to url. It returns how long the
// redirect took. A failure does not end the run, because failures are normal in the control of row 15. There, the
// server acknowledges so many links during the fault that they evict the followed links from the cache.
func (r *run) follow(claim string, s *lab.Program, code, url string) time.Duration {
	began := time.Now()
	status, location, err := s.Client.Follow(r.Context(), code)
	r.saw(claim, status == http.StatusFound && location == url,
		"%s; the URL of the link is %q", answerTo(code, err, fmt.Sprintf("status %d and Location %q", status, location)), url)
	return time.Since(began)
}

// refused requests a creation while the database accepts no writes. It returns a description of the
// answer, how long the answer took, and whether the answer was 503 with Retry-After.
func refused(r *run, s *lab.Program) (answer string, took time.Duration, right bool) {
	began := time.Now()
	o := s.Client.Create(r.Context(), "https://example.com/")
	took = time.Since(began)
	return created(o), took, unavailable(o)
}

// unavailable reports whether a creation was answered with 503 and Retry-After.
func unavailable(o loadtest.Outcome) bool {
	return o.State == loadtest.Refused && strings.HasPrefix(o.Detail, "503 ") && o.RetryAfter != ""
}

func commitReplyLost(r *run) {
	postgres := lab.Postgres(r)
	proxy := lab.Proxy(r, postgres.Addr)
	r.store(postgres.URL)
	server := r.started("DATABASE_URL=" + strings.Replace(postgres.URL, postgres.Addr, proxy.Addr, 1))
	load := r.traffic(server)
	commits := lab.StatementWith("INSERT INTO ranked_links") // shared by both calls of Lose, because a connection sends the text of a statement only once
	for _, keep := range []int{0, 5} {
		before := proxy.Lost()
		proxy.Lose(5, keep, commits)
		r.during(load, 200, 2*time.Second+r.Lasting(8*time.Second))
		if proxy.Lost() == before {
			r.Fatalf("the proxy cut off no reply after %d bytes, so the fault row proves nothing", keep)
		}
	}
	r.mend(proxy, load)
	r.end(server)
}

func wrongSecret(r *run) {
	r.databases("KGS_POOL_CAPACITY=10000", "CODE_LENGTH=3")
	own, other := "KGS_SECRET="+strings.Repeat("2b", 16), "KGS_SECRET="+strings.Repeat("2c", 16)
	server := r.server(own)
	createSome := func() {
		server.Start()
		load := r.start(server, 200)
		load.AwaitMore(int64(r.Times(1000)))
		r.stop(load)
	}
	createSome()
	server.Stop()
	r.mustRefuse("a server with another secret", r.server(other), "KGS_SECRET")
	r.mustRefuse("a worker with another secret", r.worker(other), "KGS_SECRET")
	r.mustRefuse("a server without a secret", r.server(), "KGS_SECRET")
	r.mustRefuse("a server without permutation", r.server(own, "KGS_PERMUTE=false"), "KGS_PERMUTE")
	createSome()
	r.end(server)
}

func clocksJump(r *run) {
	postgres, redis := lab.ClockedPostgres(r), lab.ClockedRedis(r)
	r.use(postgres, redis, "KGS_POOL_CAPACITY=5000")
	servers, workers := pairs(r)
	for _, s := range servers {
		r.start(s, 100)
	}
	if len(heartbeats(r)) == 0 {
		r.Fatalf("the ledger has no holder")
	}
	for _, jump := range []time.Duration{time.Hour, 0, -time.Hour, 0} {
		postgres.JumpClock(jump)
		redis.JumpClock(jump)
		r.strike(1)
		awaitHeartbeats(r)
	}
	r.serve(r.loads...)
	var lost float64
	for _, p := range slices.Concat(workers, servers) {
		lost += lostToCrashes(p)
	}
	r.figure("running processes keep their keys", 0, lost, "%v keys of running processes were abandoned", lost)
	each(workers, (*lab.Program).Stop)
	r.end(servers...)
}

// awaitHeartbeats waits until each process has sent two heartbeats. Every five seconds, a process sends a heartbeat
// and checks the heartbeats of the other processes. When it has sent two heartbeats, it has also checked the other
// processes. A holder that was declared dead is missing from the ledger, or the count of its heartbeats begins again at 1.
// awaitHeartbeats does not wait for such a holder, because the claim about running processes judges it.
func awaitHeartbeats(r *run) {
	before := heartbeats(r)
	lab.Wait(r, patient, "each process has sent two heartbeats", func() bool {
		now := heartbeats(r)
		for holder, count := range before {
			if n := now[holder]; n == count || n == count+1 {
				return false
			}
		}
		return true
	})
}

// heartbeats returns the number of heartbeats of each holder in the ledger.
func heartbeats(r *run) map[string]int64 {
	return lab.Value[map[string]int64](r, r.links, `SELECT coalesce(jsonb_object_agg(holder, beat), '{}') FROM kgs_holders`)
}

// pairs starts two servers and two workers and waits until they are ready.
func pairs(r *run) (servers, workers []*lab.Program) {
	workers = launch(2, func() *lab.Program { return r.worker() })
	servers = launch(2, func() *lab.Program { return r.server(noWorker) })
	each(slices.Concat(workers, servers), awaitReady)
	return servers, workers
}
