//go:build drill

package drill

import (
	"time"

	"keypool/internal/testenv"
)

const (
	fromRandom = `kgs_keys_taken_total{source="random"}`

	// drain is more than a server's local keys last: two batches of two seconds each.
	drain = 8 * time.Second
)

// Redis is killed under load and comes back a minute later. Nobody can know that it lost
// nothing, so the pool begins a new epoch.
func redisKilled(d *drill) {
	const rate = 300
	postgres, redis := testenv.StartPostgres(d), testenv.StartRedis(d)
	server := newServer(d, "DATABASE_URL="+postgres.URL, "REDIS_URL="+redis.URL, "KGS_POOL_CAPACITY=100000")
	server.start()
	await(d, patient, "the pool is full", func() bool { return server.status().full() })
	epoch := server.status().epoch()
	load := newTraffic(d, server)
	load.start(rate)
	pass(d, max(d.lasting(20*time.Second), 4*time.Second)) // so that the batches have grown with the load

	killed := time.Now()
	redis.Kill()
	d.struck(1)
	await(d, patient, "the local keys are used up", func() bool {
		random := server.metric(fromRandom)
		local := server.status().local()
		if local > 0 && random > 0 {
			d.Errorf("the fallback gave %v keys while %d local keys were left", random, local)
		}
		return local == 0
	})
	d.note("local keys lasted %.1f s", time.Since(killed).Seconds())
	pass(d, max(d.lasting(time.Minute), drain)-time.Since(killed))
	redis.Restart()
	await(d, patient, "the breaker is closed and the pool full", func() bool {
		st := server.status()
		return st.Breaker == "closed" && st.full() && st.epoch() == epoch+1
	})
	pass(d, d.lasting(20*time.Second))
	mustBeAvailable(d, load, 99.9)
	end(d, postgresCensus(postgres.URL), []*service{server}, load)
}

// mustBeAvailable ends load and fails unless percent of its creations got their link.
func mustBeAvailable(d *drill, load *traffic, percent float64) {
	d.Helper()
	if f := load.stop(); availability(f) < percent {
		d.Errorf("available to %.3f %%, want %v %%: %+v", availability(f), percent, f)
	}
}
