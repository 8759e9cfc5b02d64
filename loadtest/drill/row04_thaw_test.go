//go:build drill

package drill

import (
	"syscall"

	"keypool/internal/testenv"
)

// A worker freezes when it is about to push a range, is declared dead, another one
// delivers the range, and then the first one thaws and goes on.
func workerThaws(d *drill) {
	postgres, redis := testenv.StartPostgres(d), testenv.StartRedis(d, "--appendonly", "no")
	settings := []string{"DATABASE_URL=" + postgres.URL, "REDIS_URL=" + redis.URL, "KGS_POOL_CAPACITY=20000"}
	server := newServer(d, append(settings, "KGS_WORKER=false")...)
	// It stops itself when it has reserved its third range.
	frozen := newWorker(d, append(settings, "KEYPOOL_FAILPOINTS=ship:reserved=stop:3")...)
	heir := newWorker(d, settings...)
	// What it takes at its start and gives back at its stop keeps the workers at work.
	hungry := newServer(d, append(settings, "KGS_WORKER=false", "KGS_BATCH_MIN=2000")...)

	server.launch()
	frozen.launch()
	await(d, patient, "the worker has stopped itself", frozen.stopped)
	d.struck(1)
	heir.start()
	load := newTraffic(d, server)
	load.start(200)
	await(d, patient, "the range of the frozen worker is delivered", func() bool {
		hungry.start()
		hungry.stop()
		return server.audit().Shipping == 0
	})
	frozen.signal(syscall.SIGCONT)
	await(d, patient, "the thawed worker is at work again", func() bool {
		hungry.start()
		hungry.stop()
		return frozen.shipped() >= 3000 // a third range of a thousand keys
	})
	load.stop()
	frozen.stop()
	heir.stop()
	end(d, postgresCensus(postgres.URL), []*service{server}, load)
}
