package fault

import (
	"fmt"
	"strings"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
)

// redisRows are the faults of Redis that keep its data.
func redisRows() []row {
	return []row{
		{
			Name: "fault/6", Title: "Redis down",
			Summary: "Redis is killed with SIGKILL under load and restarted a minute later. It cannot prove that it lost nothing, so the pool begins a new epoch.",
			Run:     inject(redisKilled), Controls: []experiment.Control{{Settings: []string{"FALLBACK=none"}, Refutes: available}},
			Claims: theLinks(
				availableTo(99.9),
				observed("order", "The fallback makes no code while the server has local keys."),
				observed(recovers, "When Redis is back the breaker closes and the pool fills in the next epoch."),
			),
		},
		{
			Name: "fault/7", Title: "Redis hung", Alone: true,
			Summary: "Redis is frozen with SIGSTOP under load and goes on a minute later: its connections stay open, and it answers nothing.",
			Run:     inject(redisHung), Controls: without("wait", "patience"),
			Claims: theLinks(
				availableTo(99.9),
				timed("wait", fmt.Sprintf("No creation waits for Redis: the p99.9 is at most twice that with a healthy Redis or %v, "+
					"and the slowest creation takes at most %v longer.", noise, waitForRedis)),
				observed(recovers, "When Redis goes on the breaker closes and the pool fills in the same epoch."),
			),
		},
		{
			Name: "fault/8", Title: "reply to a take lost", Suites: changeToo(),
			Summary: "A proxy between server and Redis cuts every second reply to a take in the middle.",
			Run:     inject(takeReplyLost), Controls: without(keysKept, "take-id"),
			Claims: theLinks(
				counted(keysKept, "keys", "No key disappears: each reserved key is accounted for."),
				counted("cost of a lost reply", "keys", "A lost reply costs no key: at most one key a failed creation is abandoned."),
			),
		},
		{
			Name: "fault/9", Title: "reply to a push lost",
			Summary: "A proxy between worker and Redis drops every third reply to a push.",
			Run:     inject(pushReplyLost), Controls: without(keysOnce, "mark"),
			Claims: theLinks(
				keysAreUnique(),
				counted("conflicts", "keys", "No key of the pool is handed out that is a link already."),
			),
		},
		{
			Name: "fault/12", Title: "wrong eviction policy",
			Summary: "Redis has the policy allkeys-lru when the programs start, and gets it by CONFIG SET while they run.",
			Run:     inject(redisEvicts), Controls: without(refusal, "policy"),
			Claims: theLinks(
				observed(refusal, "The programs refuse to start, with status 2 and a log line that names REDIS_URL and both policies."),
				observed("alarm", "Server and worker signal `page` while Redis may evict keys."),
				timed("alarm time", "The alarm comes within 5 s."),
				observed(recovers, "Server and worker signal `ok` when Redis may evict no more."),
			),
		},
	}
}

// drain is longer than a server's local keys last: two batches of two seconds each.
const drain = 8 * time.Second

// random is how many codes the fallback of a server made.
func random(server *lab.Program) float64 {
	return server.Counter("kgs_keys_taken_total", "source", "random")
}

// conflicts is how many keys of the pool a server took that were links already.
func conflicts(server *lab.Program) float64 {
	return server.Counter("kgs_key_conflicts_total", "source", "pool")
}

// epochOf is the epoch of the pool as a program knows it, -1 while it is unknown.
func epochOf(p *lab.Program) int64 { return lab.Known(p.Status().Epoch, -1) }

// resumes waits until a server works with a full pool in an epoch, which the row promises.
func (r *run) resumes(server *lab.Program, epoch int64) {
	r.becomes(recovers, "the breaker is closed and the pool full", func() bool {
		s := server.Status()
		return lab.Known(s.Breaker, "") == "closed" && s.Full() && lab.Known(s.Epoch, -1) == epoch
	})
}

func redisKilled(r *run) {
	r.databases("KGS_POOL_CAPACITY=100000")
	server := r.startFull()
	epoch := epochOf(server)
	load := r.start(server, 300)
	lab.Pause(r, max(r.Lasting(20*time.Second), 4*time.Second)) // so that the batches have grown with the load

	killed := time.Now()
	r.redis.Kill()
	r.strike(1)
	lab.Wait(r, patient, "the local keys are used up", func() bool {
		made, left := random(server), local(server) // in this order: keys never come back
		r.saw("order", left == 0 || made == 0, "%v codes were made with %d local keys left; local keys lasted %.1f s",
			made, left, time.Since(killed).Seconds())
		return left == 0
	})
	lab.Pause(r, max(r.Lasting(time.Minute), drain)-time.Since(killed))
	r.redis.Restart()
	r.resumes(server, epoch+1)
	lab.Pause(r, r.Lasting(20*time.Second))
	r.serve(load)
	r.end(server)
}

// The bounds of row 7.
const (
	waitForRedis = 300 * time.Millisecond // what no creation may take longer because Redis hangs
	noise        = 25 * time.Millisecond  // what the machine's own hiccups may do to a p99.9
	hangs        = 3                      // how often it is tried: hiccups come and go, a wait for Redis is there each time
	noHiccup     = time.Second            // a wait that no busy machine explains
)

// redisHung compares latencies with a hung Redis to those with a healthy one. The last try counts.
func redisHung(r *run) {
	const rate = 1000
	r.databases("KGS_POOL_CAPACITY=100000")
	server := r.startFull()
	load := r.traffic(server)
	waits := true
	for try := 0; try < hangs && (waits || availability(r.record.Served) < 99.9); try++ {
		epoch := epochOf(server)
		healthy := r.during(load, rate, max(r.Lasting(time.Minute), 4*time.Second))
		r.redis.Freeze()
		r.strike(1)
		hung := r.during(load, rate, max(r.Lasting(time.Minute), drain))
		r.redis.Thaw()
		r.resumes(server, epoch)

		bound := max(2*healthy.Latency.P999, noise)
		waits = hung.Latency.P999 > bound || hung.Latency.Max > healthy.Latency.Max+waitForRedis
		r.record.Served = hung
		r.observe("wait", 0, experiment.Holds(!waits, "hung: %v; healthy: %v", hung.Latency, healthy.Latency).
			Figures(bound.Seconds(), hung.Latency.P999.Seconds()))
	}
	r.end(server)
	if slowest := r.record.Slowest; waits && slowest >= noHiccup {
		r.Refute("wait", "the slowest creation took %v", slowest) // whatever else the machine did
	}
}

func takeReplyLost(r *run) {
	const batch = 50
	r.databases("KGS_POOL_CAPACITY=10000")
	proxy := lab.Proxy(r, r.redis.Addr)
	server := r.server("REDIS_URL=redis://"+proxy.Addr, noWorker, fmt.Sprintf("KGS_BATCH_MIN=%d", batch), fmt.Sprintf("KGS_BATCH_MAX=%d", batch))
	proxy.Lose(2, batch*7/2, lab.ScriptWith("'LPOP'")) // a key is six characters and a space
	r.worker().Start()
	server.Start()
	r.awaitFull(server)
	load := r.traffic(server)
	figures := r.during(load, 500, r.Lasting(20*time.Second))
	r.mend(proxy, load)

	a := r.end(server)
	// A creation that failed may have cost its key; a lost reply must not.
	r.figure("cost of a lost reply", float64(figures.Failed()), float64(a.Lost()),
		"%d lost replies with batches of %d keys abandoned %d keys; %d creations failed", proxy.Lost(), batch, a.Lost(), figures.Failed())
}

// mend makes a proxy lose no more replies, waits for a link, and counts what was lost.
func (r *run) mend(proxy *lab.NetProxy, load *lab.Load) {
	proxy.Lose(1, 0, nil)
	load.Start(100)
	load.AwaitMore(1)
	r.stop(load)
	r.strike(proxy.Lost())
}

// A pool is filled in at least 20 pushes, whatever its size.
func pushReplyLost(r *run) {
	r.databases("KGS_POOL_CAPACITY=10000")
	proxy := lab.Proxy(r, r.redis.Addr)
	server := r.server(noWorker)
	proxy.Lose(3, 1, lab.ScriptWith("struct.unpack"))
	server.Start()
	r.worker("REDIS_URL=redis://" + proxy.Addr).Start()
	r.awaitFull(server)
	r.during(r.traffic(server), 500, r.Lasting(15*time.Second))
	r.strike(proxy.Lost())

	twice := conflicts(server)
	r.figure("conflicts", 0, twice, "%v keys were handed out although they were links", twice)
	r.end(server)
}

func redisEvicts(r *run) {
	r.databases("KGS_POOL_CAPACITY=10000")
	client := lab.RedisClient(r, r.redis.URL)
	setPolicy := func(policy string) {
		r.Must(client.ConfigSet(r.Context(), "maxmemory-policy", policy).Err())
		r.strike(1)
	}
	server, worker := r.server(noWorker), r.worker()
	setPolicy("allkeys-lru")
	r.refuses("the server", server, "REDIS_URL", "allkeys-lru", "noeviction")
	r.refuses("the worker", worker, "REDIS_URL", "allkeys-lru", "noeviction")
	both := func(state string) bool { return server.Status().State == state && worker.Status().State == state }
	setPolicy("noeviction")
	server.Start()
	worker.Start()
	r.awaitFull(server)
	load := r.start(server, 200)
	setPolicy("allkeys-lru")
	set := time.Now()
	r.becomes("alarm", "both signal page", func() bool { return both("page") })
	r.took("alarm time", 5*time.Second, time.Since(set))
	setPolicy("noeviction")
	r.becomes(recovers, "both signal ok", func() bool { return both("ok") })
	load.AwaitMore(1)
	worker.Stop()
	r.end(server)
}

// refuses launches a program, which must end with status 2 and a log line that has all the words.
// When the program starts the run ends.
func (r *run) refuses(what string, p *lab.Program, words ...string) {
	p.Launch()
	r.strike(1)
	lab.Wait(r, patient, what+" refuses to start or is ready", func() bool { return p.Ended() || p.TryReady(r.Context()) == nil })
	r.must(refusal, p.Ended(), "%s started: %t", what, !p.Ended())
	status, log := p.Exit(patient), p.Tail()
	for _, word := range words {
		r.saw(refusal, status == 2 && strings.Contains(log, word), "%s ended with status %d; %q wanted in its log %q", what, status, word, log)
	}
}
