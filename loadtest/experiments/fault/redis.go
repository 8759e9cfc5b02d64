package fault

import (
	"fmt"
	"strings"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
)

// redisRows returns the fault rows in which Redis fails, a reply of Redis is lost, or Redis has the wrong eviction policy.
// The function rollbackRows returns the rows in which Redis continues with older data.
func redisRows() []row {
	return []row{
		{
			Name: "fault/6", Title: "Redis down", Alone: true,
			Summary: "Redis is killed with SIGKILL under load and restarted later (a minute later at scale 1). Because Redis may have lost data, the pool begins a new epoch.",
			Run:     inject(redisKilled), Controls: []experiment.Control{{Settings: []string{"FALLBACK=none"}, Refutes: available}},
			Claims: theLinks(
				availableTo(99.9),
				observed("local keys before fallback", "The fallback makes no code while the server has local keys."),
				observed(recovers, "When Redis is available again, the circuit breaker of the server closes, the next epoch of the pool begins, and the pool becomes full."),
			),
		},
		{
			Name: "fault/7", Title: "Redis hung", Alone: true,
			Summary: "Redis is frozen with SIGSTOP under load and continues later (a minute later at scale 1). While Redis is frozen, its connections stay open, but it answers no request.",
			Run:     inject(redisHung), Controls: without("no wait for Redis", "patience"),
			Claims: theLinks(
				availableTo(99.9),
				timed("no wait for Redis", fmt.Sprintf("No creation waits for Redis. The p99.9 of the latency is at most the larger of %v and twice the p99.9 with a healthy Redis. "+
					"The slowest creation takes at most %v longer than the slowest creation with a healthy Redis.", noise, waitForRedis)),
				counted("no creation hangs", "s", fmt.Sprintf("Every creation takes at most %v, even while Redis is frozen.", noHiccup)),
				observed(recovers, "When Redis continues, the circuit breaker of the server closes, and the pool becomes full. The epoch of the pool does not change."),
			),
		},
		{
			Name: "fault/8", Title: "lost reply to a take", Suites: changeToo(),
			Summary: "A server takes batches of keys from the pool in Redis. A proxy between the server and Redis passes on only the first half of every second reply that contains a batch, and then resets the connection.",
			Run:     inject(takeReplyLost), Controls: without(keysKept, "take-id"),
			Claims: theLinks(
				counted(keysKept, "missing keys", "No reserved key is missing from the accounts."),
				counted("lost reply costs no key", "abandoned keys", "No key is abandoned because of a lost reply. A creation that fails may cost its key, so the number of abandoned keys is at most the number of failed creations."),
			),
		},
		{
			Name: "fault/9", Title: "lost reply to a push",
			Summary: "A proxy between the worker and Redis drops every third reply to a push.",
			Run:     inject(pushReplyLost), Controls: without(keysOnce, "mark"),
			Claims: theLinks(
				keysAreUnique(),
				counted("no conflict", "conflicts", "No key that is already linked is handed out from the pool."),
			),
		},
		{
			Name: "fault/12", Title: "wrong eviction policy in Redis",
			Summary: "Redis has the eviction policy allkeys-lru when the programs start. Then the programs are started with the policy noeviction. While they run, CONFIG SET sets allkeys-lru.",
			Run:     inject(redisEvicts), Controls: without(noStart, "policy"),
			Claims: theLinks(
				observed(noStart, "The programs refuse to start. They end with status 2, and a log line names REDIS_URL, the current policy and the required policy."),
				observed("eviction alarm", "The server and the worker signal `page` while the policy allows Redis to evict keys."),
				timed("eviction alarm time", "The server and the worker signal `page` within 5 s after the policy was set."),
				observed(recovers, "The server and the worker signal `ok` when the policy no longer allows Redis to evict keys."),
			),
		},
	}
}

// drain is the least time for which these rows make Redis unavailable. It is longer than the time for which the
// local keys of a server last: a server holds two batches, and each batch lasts two seconds.
const drain = 8 * time.Second

// random returns the number of codes that the fallback of a server made.
func random(server *lab.Program) float64 {
	return server.Counter("kgs_keys_taken_total", "source", "random")
}

// conflicts returns the number of keys that a server took from the pool although they were already linked. The
// run ends if the server took no key from the pool, because then no key could conflict.
func conflicts(r lab.T, server *lab.Program) float64 {
	if server.Counter("kgs_keys_taken_total", "source", "pool") == 0 {
		r.Fatalf("a server took no key from the pool, so its conflicts prove nothing")
	}
	return server.Counter("kgs_key_conflicts_total", "source", "pool")
}

// awaitEpoch waits until the pool is full and returns the epoch of the pool.
func (r *run) awaitEpoch(p *lab.Program) int64 {
	return known(r, "the epoch of the pool", r.awaitFull(p).Epoch)
}

// awaitRecovery waits until a server reports that the breaker is closed and the pool is full in the given epoch. It
// records the result for the claim recovers.
func (r *run) awaitRecovery(server *lab.Program, epoch int64) {
	r.becomes(recovers, "Redis was available again", fmt.Sprintf("the breaker is closed and the pool is full in the epoch %d", epoch), func() bool {
		s := server.Status()
		return lab.Known(s.Breaker, "") == "closed" && s.Full() && lab.Known(s.Epoch, -1) == epoch
	})
}

// redisKilled kills Redis and checks that the fallback starts only when the local keys are used up.
func redisKilled(r *run) {
	r.databases("KGS_POOL_CAPACITY=100000")
	server := r.started()
	epoch := r.awaitEpoch(server)
	load := r.start(server, 300)
	lab.Pause(r, max(r.Lasting(20*time.Second), 4*time.Second)) // meanwhile the batches grow with the load

	before, killed := random(server), time.Now() // on a busy machine, the fallback may have made codes before the kill
	r.redis.Kill()
	r.strike(1)
	lab.Wait(r, patient, "the local keys are used up", func() bool {
		made, left := random(server)-before, local(r, server) // made is read first: if left is above 0, the server also had local keys when made was read
		r.saw("local keys before fallback", left == 0 || made == 0, "%.1f s after the kill, the server had %d local keys, and the fallback had made %v codes",
			time.Since(killed).Seconds(), left, made)
		return left == 0
	})
	lab.Pause(r, max(r.Lasting(time.Minute), drain)-time.Since(killed))
	r.redis.Restart()
	r.awaitRecovery(server, epoch+1)
	lab.Pause(r, r.Lasting(20*time.Second))
	r.serve(load)
	r.end(server)
}

// The bounds of row 7.
const (
	waitForRedis = 300 * time.Millisecond // longest time by which a hung Redis may delay a creation
	noise        = 25 * time.Millisecond  // greatest p99.9 that pauses of the machine alone may cause
	noHiccup     = 3 * time.Second        // greatest latency that pauses of the machine may explain
)

// redisHung compares the latencies of creations with a hung Redis and with a healthy Redis.
func redisHung(r *run) {
	const rate = 1000
	r.databases("KGS_POOL_CAPACITY=100000")
	server := r.started()
	load := r.traffic(server)
	epoch := r.awaitEpoch(server)
	healthy := r.during(load, rate, max(r.Lasting(time.Minute), 4*time.Second))
	r.redis.Freeze()
	r.strike(1)
	hung := r.during(load, rate, max(r.Lasting(time.Minute), drain))
	r.redis.Thaw()
	r.awaitRecovery(server, epoch)

	r.record.Served = hung
	bound := max(2*healthy.Latency.P999, noise)
	waits := hung.Latency.P999 > bound || hung.Latency.Max > healthy.Latency.Max+waitForRedis
	r.observe("no wait for Redis", 0, experiment.Holds(!waits, "with a hung Redis, the latency was %v; with a healthy Redis, it was %v", hung.Latency, healthy.Latency).
		Figures(bound.Seconds(), hung.Latency.P999.Seconds()))
	r.end(server)
	r.figure("no creation hangs", noHiccup.Seconds(), r.record.Slowest.Seconds(), "the slowest creation took %v", r.record.Slowest.Round(time.Millisecond))
}

func takeReplyLost(r *run) {
	const batch = 50
	r.databases("KGS_POOL_CAPACITY=10000")
	proxy := lab.Proxy(r, r.redis.Addr)
	server := r.server("REDIS_URL=redis://"+proxy.Addr, noWorker, fmt.Sprintf("KGS_BATCH_MIN=%d", batch), fmt.Sprintf("KGS_BATCH_MAX=%d", batch))
	proxy.Lose(2, batch*7/2, lab.ScriptWith("'LPOP'")) // half of a reply is passed on; each key in it takes six characters and a space
	r.worker().Start()
	server.Start()
	r.awaitFull(server)
	load := r.traffic(server)
	figures := r.during(load, 500, r.Lasting(20*time.Second))
	r.mend(proxy, load)

	a := r.end(server)
	// A failed creation may cost its key. A lost reply must not cost a key.
	r.figure("lost reply costs no key", float64(figures.Failed()), float64(a.Lost()),
		"%d replies with batches of %d keys were lost, %d keys were abandoned, and %d creations failed", proxy.Lost(), batch, a.Lost(), figures.Failed())
}

// mend makes a proxy pass on all replies, waits until a link is created, and counts each lost reply as a
// strike.
func (r *run) mend(proxy *lab.NetProxy, load *lab.Load) {
	proxy.Lose(1, 0, nil)
	load.Start(100)
	load.AwaitMore(1)
	r.stop(load)
	r.strike(proxy.Lost())
}

// pushReplyLost drops replies while a worker fills the pool. The worker needs at least 10 pushes to fill this pool, so the
// proxy drops several replies.
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

	twice := conflicts(r, server)
	r.figure("no conflict", 0, twice, "%v keys were handed out although they were already linked", twice)
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
	r.mustRefuse("the server", server, "REDIS_URL", "allkeys-lru", "noeviction")
	r.mustRefuse("the worker", worker, "REDIS_URL", "allkeys-lru", "noeviction")
	both := func(state string) bool { return server.Status().State == state && worker.Status().State == state }
	setPolicy("noeviction")
	server.Start()
	worker.Start()
	r.awaitFull(server)
	load := r.start(server, 200)
	setPolicy("allkeys-lru")
	set := time.Now()
	r.becomes("eviction alarm", "the policy was set", "the server and the worker signal page", func() bool { return both("page") })
	r.took("eviction alarm time", 5*time.Second, time.Since(set))
	setPolicy("noeviction")
	r.becomes(recovers, "the policy was set back", "the server and the worker signal ok", func() bool { return both("ok") })
	load.AwaitMore(1)
	worker.Stop()
	r.end(server)
}

// mustRefuse launches a program. The program must not become ready: it must end with status 2, and its log must contain
// all words. If the program becomes ready, mustRefuse ends the run.
func (r *run) mustRefuse(what string, p *lab.Program, words ...string) {
	p.Launch()
	r.strike(1)
	lab.Wait(r, patient, what+" refuses to start or is ready", func() bool { return p.Ended() || p.TryReady(r.Context()) == nil })
	if !p.Ended() {
		r.Refute(noStart, "%s started", what)
	}
	status, log := p.Exit(patient), p.Tail()
	for _, word := range words {
		found := strings.Contains(log, word)
		r.saw(noStart, status == 2 && found, "%s ended with status %d, and its log %s %q%s", what, status, either(found, "contains", "does not contain"), word, either(found, "", ": "+log))
	}
}
