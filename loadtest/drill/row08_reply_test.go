//go:build drill

package drill

import (
	"fmt"
	"time"

	"keypool/internal/testenv"
)

// Every second reply to a take gets lost on its way to the server, half of it or all.
func takeReplyLost(d *drill) {
	const batch = 50
	postgres, redis := testenv.StartPostgres(d), testenv.StartRedis(d)
	proxy := newProxy(d, redis.Addr)
	database := "DATABASE_URL=" + postgres.URL
	worker := newWorker(d, database, "REDIS_URL="+redis.URL, "KGS_POOL_CAPACITY=10000")
	server := newServer(d, database, "REDIS_URL=redis://"+proxy.addr, "KGS_POOL_CAPACITY=10000", "KGS_WORKER=false",
		fmt.Sprintf("KGS_BATCH_MIN=%d", batch), fmt.Sprintf("KGS_BATCH_MAX=%d", batch))
	proxy.lose(2, batch*7/2, scriptWith("'LPOP'")) // a key is six characters and a space
	worker.start()
	server.start()
	await(d, patient, "the pool is full", func() bool { return server.status().full() })
	load := newTraffic(d, server)
	figures := load.during(500, d.lasting(20*time.Second))
	proxy.lose(1, 0, nil)
	load.start(100)
	load.awaitMore(1)
	load.stop()
	happened(d, proxy.lost(), "reply to a take lost")
	d.note("a batch is %d keys", batch)

	books := end(d, postgresCensus(postgres.URL), []*service{server}, load)
	// A creation that failed may have cost its key; a lost reply must not.
	if lost := total(books.Abandoned); lost > figures.Failed() {
		d.Errorf("%d keys are abandoned after %d lost replies and %d creations that failed", lost, proxy.lost(), figures.Failed())
	}
}

// Every third reply to a push gets lost on its way to the worker. A pool is filled in 20
// pushes at least, whatever its size.
func pushReplyLost(d *drill) {
	postgres, redis := testenv.StartPostgres(d), testenv.StartRedis(d)
	proxy := newProxy(d, redis.Addr)
	database, capacity := "DATABASE_URL="+postgres.URL, "KGS_POOL_CAPACITY=10000"
	worker := newWorker(d, database, "REDIS_URL=redis://"+proxy.addr, capacity)
	server := newServer(d, database, "REDIS_URL="+redis.URL, capacity, "KGS_WORKER=false")
	proxy.lose(3, 1, scriptWith("struct.unpack"))
	server.start()
	worker.start()
	await(d, patient, "the pool is full", func() bool { return server.status().full() })
	load := newTraffic(d, server)
	load.during(500, d.lasting(15*time.Second))
	happened(d, proxy.lost(), "reply to a push lost")

	if twice := server.metric(`kgs_key_conflicts_total{source="pool"}`); twice > 0 {
		d.Errorf("%v keys were handed out although they were linked", twice)
	}
	end(d, postgresCensus(postgres.URL), []*service{server}, load)
}
