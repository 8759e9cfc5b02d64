//go:build drill

package drill

import (
	"time"

	"keypool/internal/testenv"
	"keypool/loadtest"
)

// waitForRedis is what no creation may take longer because Redis is away.
const waitForRedis = 300 * time.Millisecond

// Redis is killed under load and comes back later. Nobody can know that it lost
// nothing, so the pool begins a new epoch.
func redisKilled(d *drill) {
	redis := testenv.StartRedis(d)
	redisOutage(d, outage{redis, redis.Kill, redis.Restart, 1})
}

// Redis hangs under load: connections stay open, nothing answers.
func redisHung(d *drill) {
	redis := testenv.StartRedis(d)
	redisOutage(d, outage{redis, redis.Pause, redis.Resume, 0})
}

// outage is a way in which Redis is away for a time.
type outage struct {
	redis      *testenv.Server
	begin, end func()
	epochs     int64 // that begin because of it
}

func redisOutage(d *drill, o outage) {
	d.Helper()
	const rate = 1000
	postgres := testenv.StartPostgres(d)
	server := newServer(d, "DATABASE_URL="+postgres.URL, "REDIS_URL="+o.redis.URL, "KGS_POOL_CAPACITY=100000")
	server.start()
	await(d, patient, "the pool is full", func() bool { return server.status().full() })
	load := newTraffic(d, server)

	epoch := server.status().epoch()

	well := load.during(rate, d.lasting(20*time.Second))
	o.begin()
	d.struck(1)
	load.start(rate)
	await(d, patient, "the breaker is open", func() bool { return server.status().Breaker == "open" })
	pass(d, d.lasting(15*time.Second))
	away := load.stop()
	o.end()
	load.start(rate)
	await(d, patient, "the breaker is closed and the pool full", func() bool {
		st := server.status()
		return st.Breaker == "closed" && st.full() && st.epoch() == epoch+o.epochs
	})
	pass(d, d.lasting(20*time.Second))
	back := load.stop()

	for phase, f := range map[string]loadtest.Figures{"before": well, "away": away, "back": back} {
		d.Logf("%-6s %d of %d acknowledged; %v", phase, f.Acknowledged, f.Sent+f.Unsent, f.Latency)
		if f.Failed() > 0 {
			d.Errorf("%s: %d creations failed: %+v", phase, f.Failed(), f)
		}
	}
	// The machine has hiccups of its own: it is what the outage adds that counts.
	if limit := well.Latency.Max + waitForRedis; away.Latency.Max > limit {
		d.Errorf("with Redis away a creation took %v; the slowest before took %v", away.Latency.Max, well.Latency.Max)
	}
	server.audit()
	server.restart()
	judge(d, server, postgresCensus(postgres.URL), load)
	server.stop()
	server.audit()
}
