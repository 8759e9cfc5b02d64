//go:build drill

package drill

import (
	"fmt"
	"time"

	"keypool/internal/testenv"
)

const (
	// waitForRedis is what no creation may take longer because Redis is away.
	waitForRedis = 300 * time.Millisecond
	// noise is what the machine's own hiccups may do to a p99.9.
	noise = 25 * time.Millisecond
)

// rounds is how often it is tried: what the machine does by itself comes and goes, a wait
// for Redis would be there each time.
const rounds = 3

// Redis hangs under load: connections stay open, nothing answers.
func redisHung(d *drill) {
	postgres, redis := testenv.StartPostgres(d), testenv.StartRedis(d)
	server := newServer(d, "DATABASE_URL="+postgres.URL, "REDIS_URL="+redis.URL, "KGS_POOL_CAPACITY=100000")
	server.start()
	await(d, patient, "the pool is full", func() bool { return server.status().full() })
	load := newTraffic(d, server)
	var waits string
	for range rounds {
		if waits = hangOnce(d, server, redis, load); waits == "" {
			break
		}
	}
	if waits != "" {
		d.Errorf("creations wait for Redis, in each of %d rounds: %s", rounds, waits)
	}
	end(d, postgresCensus(postgres.URL), []*service{server}, load)
}

// hangOnce has Redis healthy and then hung, and says what it is that creations wait for it;
// "" when they do not.
func hangOnce(d *drill, server *service, redis *testenv.Server, load *traffic) (waits string) {
	d.Helper()
	const rate = 1000
	epoch := server.status().epoch()
	healthy := load.during(rate, max(d.lasting(time.Minute), 4*time.Second))
	redis.Pause()
	d.struck(1)
	hung := load.during(rate, max(d.lasting(time.Minute), drain))
	redis.Resume()
	await(d, patient, "the breaker is closed and the pool full", func() bool {
		st := server.status()
		return st.Breaker == "closed" && st.full() && st.epoch() == epoch
	})
	d.note("p99.9 %.1f ms hung, %.1f ms healthy; slowest %.0f and %.0f ms", milliseconds(hung.Latency.P999),
		milliseconds(healthy.Latency.P999), milliseconds(hung.Latency.Max), milliseconds(healthy.Latency.Max))
	switch {
	case availability(hung) < 99.9:
		return fmt.Sprintf("available to %.3f %%: %+v", availability(hung), hung)
	case hung.Latency.P999 > max(2*healthy.Latency.P999, noise), hung.Latency.Max > healthy.Latency.Max+waitForRedis:
		return fmt.Sprintf("hung %v; healthy %v", hung.Latency, healthy.Latency)
	}
	return ""
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
