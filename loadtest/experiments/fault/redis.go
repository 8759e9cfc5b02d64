package fault

import (
	"fmt"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
)

// redisRows are the faults of Redis that keep its data.
func redisRows() []row {
	return []row{
		{
			name: "6", title: "Redis down",
			injected: "Redis is killed with SIGKILL under load and restarted a minute later. It cannot prove that it lost nothing, so the pool begins a new epoch.",
			run:      redisKilled, controls: []experiment.Control{{Settings: []string{"FALLBACK=none"}, Refutes: available}},
			claims: theLinks(
				availableTo(99.9),
				observed("order", "The fallback makes no code while the server has local keys."),
				observed(recovers, "When Redis is back the breaker closes and the pool fills in the next epoch."),
			),
		},
		{
			name: "7", title: "Redis hung", alone: true,
			injected: "Redis is frozen with SIGSTOP under load and goes on a minute later: its connections stay open, and it answers nothing.",
			run:      redisHung, controls: without("wait", "patience"),
			claims: theLinks(
				availableTo(99.9), creationsDoNotWait(),
				observed(recovers, "When Redis goes on the breaker closes and the pool fills in the same epoch."),
			),
		},
		{
			name: "12", title: "wrong eviction policy",
			injected: "Redis has the policy allkeys-lru when the programs start, and gets it by CONFIG SET while they run.",
			run:      redisEvicts, controls: without(refusal, "policy"),
			claims: theLinks(
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

// recovered reports whether a server works with a full pool in an epoch.
func recovered(server *lab.Program, epoch int64) bool {
	s := server.Status()
	return lab.Known(s.Breaker, "") == "closed" && s.Full() && epochOf(s) == epoch
}

// epochOf is the epoch of the pool, -1 while it is unknown.
func epochOf(s lab.Status) int64 { return lab.Known(s.Epoch, -1) }

// startFull starts a server with its worker and waits until the pool is full.
func startFull(r *run, settings ...string) *lab.Program {
	server := lab.Server(r, settings...)
	server.Start()
	awaitFull(r, server)
	return server
}

func awaitFull(r *run, p *lab.Program) {
	lab.Wait(r, patient, "the pool is full", func() bool { return p.Status().Full() })
}

func redisKilled(r *run) {
	postgres, redis := lab.Postgres(r), lab.DurableRedis(r)
	server := startFull(r, "DATABASE_URL="+postgres.URL, "REDIS_URL="+redis.URL, "KGS_POOL_CAPACITY=100000")
	epoch := epochOf(server.Status())
	load := lab.Traffic(r, server)
	load.Start(300)
	lab.Pause(r, max(r.Lasting(20*time.Second), 4*time.Second)) // so that the batches have grown with the load

	killed := time.Now()
	redis.Kill()
	r.strike(1)
	lab.Wait(r, patient, "the local keys are used up", func() bool {
		made, left := random(server), local(server) // in this order: keys never come back
		r.saw("order", left == 0 || made == 0, "%v codes were made with %d local keys left", made, left)
		return left == 0
	})
	r.note("The local keys lasted %.1f s.", time.Since(killed).Seconds())
	lab.Pause(r, max(r.Lasting(time.Minute), drain)-time.Since(killed))
	redis.Restart()
	r.becomes(recovers, "the breaker is closed and the pool full", func() bool { return recovered(server, epoch+1) })
	lab.Pause(r, r.Lasting(20*time.Second))
	r.serve(load)
	r.end([]*lab.Program{server}, load)
}

// The bounds of row 7.
const (
	waitForRedis = 300 * time.Millisecond // what no creation may take longer because Redis hangs
	noise        = 25 * time.Millisecond  // what the machine's own hiccups may do to a p99.9
	hangs        = 3                      // how often it is tried: hiccups come and go, a wait for Redis is there each time
	noHiccup     = time.Second            // a wait that no busy machine explains
)

// creationsDoNotWait compares latencies with a hung Redis to those with a healthy one.
func creationsDoNotWait() claim {
	c := timed("wait", fmt.Sprintf("No creation waits for Redis: the p99.9 is at most twice that with a healthy Redis or %v, "+
		"and the slowest creation takes at most %v longer.", noise, waitForRedis))
	c.Unit = "ms"
	c.Judge = struck(func(r *Record) experiment.Verdict {
		v := r.verdict(c.Name)
		if r.Slowest < noHiccup {
			v = v.Unless(r.Unfit)
		}
		return v
	})
	return c
}

func redisHung(r *run) {
	postgres, redis := lab.Postgres(r), lab.DurableRedis(r)
	server := startFull(r, "DATABASE_URL="+postgres.URL, "REDIS_URL="+redis.URL, "KGS_POOL_CAPACITY=100000")
	load := lab.Traffic(r, server)
	var healthy, hung loadtest.Figures
	for range hangs {
		healthy, hung = hangOnce(r, server, redis, load)
		if availability(hung) >= 99.9 && !waits(healthy.Latency, hung.Latency) {
			break
		}
	}
	r.record.Served = &hung
	o := r.saw("wait", !waits(healthy.Latency, hung.Latency), "hung: %v; healthy: %v", hung.Latency, healthy.Latency)
	o.figures, o.bound, o.observed = true, milliseconds(max(2*healthy.Latency.P999, noise)), milliseconds(hung.Latency.P999)
	r.end([]*lab.Program{server}, load)
}

// waits reports whether creations were slower with a hung Redis.
func waits(healthy, hung loadtest.Latency) bool {
	return hung.P999 > max(2*healthy.P999, noise) || hung.Max > healthy.Max+waitForRedis
}

// hangOnce creates links with Redis healthy and then hung.
func hangOnce(r *run, server *lab.Program, redis *lab.Database, load *lab.Load) (healthy, hung loadtest.Figures) {
	const rate = 1000
	epoch := epochOf(server.Status())
	healthy = r.during(load, rate, max(r.Lasting(time.Minute), 4*time.Second))
	redis.Freeze()
	r.strike(1)
	hung = r.during(load, rate, max(r.Lasting(time.Minute), drain))
	redis.Thaw()
	r.becomes(recovers, "the breaker is closed and the pool full", func() bool { return recovered(server, epoch) })
	return healthy, hung
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func redisEvicts(r *run) {
	postgres, redis := lab.Postgres(r), lab.DurableRedis(r, "--maxmemory-policy", "allkeys-lru")
	client := lab.RedisClient(r, redis.URL)
	settings := []string{"DATABASE_URL=" + postgres.URL, "REDIS_URL=" + redis.URL, "KGS_POOL_CAPACITY=10000"}
	server, worker := lab.Server(r, append(settings, "KGS_WORKER=false")...), lab.Worker(r, settings...)
	r.refuses("the server", server, "REDIS_URL", "allkeys-lru", "noeviction")
	r.refuses("the worker", worker, "REDIS_URL", "allkeys-lru", "noeviction")
	setPolicy := func(policy string) {
		r.Must(client.ConfigSet(r.Context(), "maxmemory-policy", policy).Err())
		r.strike(1)
	}
	both := func(state string) bool { return server.Status().State == state && worker.Status().State == state }
	setPolicy("noeviction")
	server.Start()
	worker.Start()
	awaitFull(r, server)
	load := lab.Traffic(r, server)
	load.Start(200)
	setPolicy("allkeys-lru")
	set := time.Now()
	r.becomes("alarm", "both signal page", func() bool { return both("page") })
	r.took("alarm time", 5*time.Second, time.Since(set))
	setPolicy("noeviction")
	r.becomes(recovers, "both signal ok", func() bool { return both("ok") })
	load.AwaitMore(1)
	r.stop(load)
	worker.Stop()
	r.end([]*lab.Program{server}, load)
}

// refuses launches a program and waits until it has ended with status 2 and a line that has all
// the words. When the program starts the run ends.
func (r *run) refuses(what string, p *lab.Program, words ...string) {
	p.Launch()
	r.strike(1)
	lab.Wait(r, patient, what+" refuses to start or is ready", func() bool { return p.Ended() || p.TryReady(r.Context()) == nil })
	if !p.Ended() {
		r.Refute(refusal, "%s started", what)
	}
	status, log := p.Exit(patient), p.Tail()
	for _, word := range words {
		r.saw(refusal, status == 2 && strings.Contains(log, word), "%s ended with status %d; %q wanted in its log %q", what, status, word, log)
	}
}
