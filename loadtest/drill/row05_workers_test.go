//go:build drill

package drill

import (
	"keypool/internal/testenv"
)

// Many workers find the same empty pool.
func workersAtOnce(d *drill) {
	const capacity, chunk = 100_000, 5000
	// Each process has a connection pool of its own.
	postgres, redis := testenv.StartPostgres(d, "max_connections=400"), testenv.StartRedis(d, "--appendonly", "no")
	settings := []string{"DATABASE_URL=" + postgres.URL, "REDIS_URL=" + redis.URL, "KGS_POOL_CAPACITY=100000"}
	server := newServer(d, append(settings, "KGS_WORKER=false")...)
	server.start()
	load := newTraffic(d, server)
	load.start(200)
	workers := make([]*service, together)
	for i := range workers {
		workers[i] = newWorker(d, settings...)
		workers[i].launch()
	}
	d.struck(together)
	for _, w := range workers {
		w.awaitReady()
	}
	await(d, patient, "the pool is full", func() bool { return server.status().full() })
	load.awaitMore(int64(d.times(1000)))
	load.stop()
	for _, w := range workers {
		w.stop()
	}
	server.restart()
	await(d, patient, "the server sees the pool", func() bool { return server.status().Pool != nil })
	if keys := *server.status().Pool; keys > capacity+together*chunk {
		d.Errorf("the pool is over capacity: %d keys, at most %d and a chunk of %d a worker are right", keys, capacity, chunk)
	}
	judge(d, server, postgresCensus(postgres.URL), load)
	server.stop()
	if got := server.audit(); len(got.Abandoned) > 0 {
		d.Errorf("orderly stops abandoned keys: %v", got.Abandoned)
	}
}
