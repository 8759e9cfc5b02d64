//go:build drill

package drill

import (
	"time"

	"keypool/internal/testenv"
	"keypool/loadtest"
)

const (
	// waitForRedis is what no creation may take longer because Redis is away.
	waitForRedis = 300 * time.Millisecond
	// noise is what the machine's own hiccups may do to a p99.9.
	noise = 25 * time.Millisecond
)

// Redis hangs under load: connections stay open, nothing answers.
func redisHung(d *drill) {
	const rate = 1000
	postgres, redis := testenv.StartPostgres(d), testenv.StartRedis(d)
	server := newServer(d, "DATABASE_URL="+postgres.URL, "REDIS_URL="+redis.URL, "KGS_POOL_CAPACITY=100000")
	server.start()
	await(d, patient, "the pool is full", func() bool { return server.status().full() })
	epoch := server.status().epoch()
	load := newTraffic(d, server)
	before := load.during(rate, max(d.lasting(30*time.Second), 4*time.Second))
	recorder := load.recorder

	redis.Pause()
	d.struck(1)
	hung := load.during(rate, max(d.lasting(time.Minute), drain))
	if got := server.status().Breaker; got == "closed" {
		d.Errorf("the breaker is %s although Redis hangs", got)
	}
	redis.Resume()
	await(d, patient, "the breaker is closed and the pool full", func() bool {
		st := server.status()
		return st.Breaker == "closed" && st.full() && st.epoch() == epoch
	})
	load.resume(rate, recorder)
	pass(d, d.lasting(30*time.Second))
	healthy := load.stop()

	mustNotWait(d, healthy.Latency, hung.Latency)
	if availability(hung) < 99.9 {
		d.Errorf("available to %.3f %%: %+v", availability(hung), hung)
	}
	d.Logf("before %v", before.Latency)
	server.audit()
	server.restart()
	judge(d, server, postgresCensus(postgres.URL), load)
	server.stop()
	server.audit()
}

// mustNotWait fails when creations took longer with Redis hung than with Redis healthy,
// in the same run: the machine's own hiccups are in both.
func mustNotWait(d *drill, healthy, hung loadtest.Latency) {
	d.Helper()
	d.note("p99.9 %.1f ms hung, %.1f ms healthy", milliseconds(hung.P999), milliseconds(healthy.P999))
	d.note("slowest %.0f ms hung, %.0f ms healthy", milliseconds(hung.Max), milliseconds(healthy.Max))
	if hung.P999 > max(2*healthy.P999, noise) {
		d.Errorf("creations wait for Redis: hung %v; healthy %v", hung, healthy)
	}
	if hung.Max > healthy.Max+waitForRedis {
		d.Errorf("a creation waits for Redis: hung %v; healthy %v", hung, healthy)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
