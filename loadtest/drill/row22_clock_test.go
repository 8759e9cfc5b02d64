//go:build drill

package drill

import (
	"slices"
	"time"

	"keypool/internal/testenv"
)

// The clocks of Postgres and Redis jump by an hour, forth and back, while two servers
// hold batches and two workers fill the pool. Nobody has died, so nothing may be
// taken from anybody.
func clocksJump(d *drill) {
	setup := testenv.Setup{Clock: true}
	postgres, redis := setup.StartPostgres(d), setup.StartRedis(d, "--appendonly", "no")
	settings := []string{"DATABASE_URL=" + postgres.URL, "REDIS_URL=" + redis.URL, "KGS_POOL_CAPACITY=5000"}
	servers := []*service{
		newServer(d, append(settings, "KGS_WORKER=false")...),
		newServer(d, append(settings, "KGS_WORKER=false")...),
	}
	workers := []*service{newWorker(d, settings...), newWorker(d, settings...)}
	for _, s := range slices.Concat(workers, servers) {
		s.launch()
	}
	var loads []*traffic
	for _, s := range servers {
		s.awaitReady()
		load := newTraffic(d, s)
		load.start(100)
		loads = append(loads, load)
	}
	for _, jump := range []time.Duration{time.Hour, 0, -time.Hour, 0} {
		postgres.JumpClock(jump)
		redis.JumpClock(jump)
		d.struck(1)
		// Every process looks after the others once in five seconds.
		pass(d, 6*time.Second)
	}
	for _, load := range loads {
		if f := load.stop(); f.Failed() > 0 {
			d.Errorf("creations failed while the clocks jumped: %+v", f)
		}
	}
	for _, s := range slices.Concat(workers, servers) {
		if n := s.metric(`kgs_keys_abandoned_total{reason="crash"}`); n > 0 {
			d.Errorf("%v keys of the living were written off", n)
		}
	}
	for _, w := range workers {
		w.stop()
	}
	end(d, postgresCensus(postgres.URL), servers, loads...)
}
