//go:build drill

package drill

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"keypool/internal/testenv"
)

// refillAgain is how soon after a worker was killed the next one must be at work.
const refillAgain = 10 * time.Second

// Workers kill themselves at every step on the way of a range from the ledger to the
// pool, each followed by one that goes on to its own step. The pool has room for all that
// they push, so that there is always something to do.
func workerKilled(d *drill) {
	postgres, redis := testenv.StartPostgres(d), testenv.StartRedis(d)
	const capacity = 400_000 // shipped in ranges of 20,000, which take two pushes
	settings := []string{"DATABASE_URL=" + postgres.URL, "REDIS_URL=" + redis.URL, fmt.Sprintf("KGS_POOL_CAPACITY=%d", capacity)}
	server := newServer(d, append(settings, "KGS_WORKER=false")...)
	server.start()
	load := newTraffic(d, server)
	load.start(200)
	killed := killWorkerAt(d, settings, "epoch:opened")
	for range d.times(3) {
		for _, step := range []string{
			"ship:reserved", "ship:pushed", "ship:pushed-all", "ship:delivered", "ship:forgotten",
		} {
			killed = killWorkerAt(d, settings, step)
		}
	}

	worker := newWorker(d, settings...)
	worker.launch()
	await(d, refillAgain, "the next worker refills", func() bool { return worker.shipped() > 0 })
	d.note("refilled again after %.1f s", time.Since(killed).Seconds())
	worker.awaitReady()
	await(d, patient, "the pool is full", func() bool { return server.status().full() })
	abandoned := awaitDeaths(d, settings, server, worker)
	makeRoom(d, postgres, redis, settings, capacity, 100_000)
	load.stop()
	worker.stop()
	want := map[string]int64{"crash": abandoned}
	if got := end(d, postgresCensus(postgres.URL), []*service{server}, load); !maps.Equal(got.Abandoned, want) {
		d.Errorf("abandoned %v, want %v: those of a server", got.Abandoned, want)
	}
}

// awaitDeaths waits until all who were killed before are known to be dead: then a server
// that is killed now is, too, and its keys are abandoned. It gives their number.
func awaitDeaths(d *drill, settings []string, witnesses ...*service) (abandoned int64) {
	d.Helper()
	last := newServer(d, append(settings, "KGS_WORKER=false")...)
	last.start()
	await(d, patient, "the server has keys", func() bool {
		abandoned = last.status().local()
		return abandoned == 2*100 // two batches of the smallest size
	})
	last.kill()
	await(d, patient, "the keys of the dead are abandoned", func() bool {
		var known float64
		for _, w := range witnesses {
			known += w.metric(`kgs_keys_abandoned_total{reason="crash"}`)
		}
		return known >= float64(abandoned)
	})
	return abandoned
}

// killWorkerAt runs a worker until it kills itself at a step, and gives the moment.
func killWorkerAt(d *drill, settings []string, step string) time.Time {
	d.Helper()
	worker := newWorker(d, append(settings, "KEYPOOL_FAILPOINTS="+step+"=kill")...)
	worker.launch()
	await(d, refillAgain, "the worker comes to "+step, worker.ended)
	if status := worker.exit(patient); status != -1 {
		d.Fatalf("the worker that was to be killed at %s ended with status %d", step, status)
	}
	d.struck(1)
	return time.Now()
}

// makeRoom has more and more servers take batches of so many keys out of the pool, below the
// mark from which it is refilled to its capacity, until the workers have adopted and delivered
// the ranges of those that are known to be dead. It looks into Redis and the ledger by
// itself: what /status says is a second old, and an audit reads all keys there are.
func makeRoom(d *drill, postgres, redis *testenv.Server, settings []string, capacity, keys int64) {
	d.Helper()
	db, err := sql.Open("pgx", postgres.URL)
	if err != nil {
		d.Fatal(err)
	}
	defer db.Close()
	shipping := func(whose string) (n int) {
		if err := db.QueryRowContext(d.Context(), `SELECT count(*) FROM kgs_ranges WHERE state = 'shipping'`+whose).Scan(&n); err != nil {
			d.Fatal(err)
		}
		return n
	}
	client := redisClient(d, redis.Addr)
	list := poolList(d, client)
	pool := func() int64 { return client.LLen(d.Context(), list).Val() }
	var hungry []*service
	for shipping(` AND holder NOT IN (SELECT holder FROM kgs_holders)`) > 0 {
		for lowWater := capacity - capacity/10; pool() >= lowWater; {
			next := newServer(d, append(slices.Clone(settings), "KGS_WORKER=false", fmt.Sprintf("KGS_BATCH_MIN=%d", keys))...)
			next.start()
			await(d, patient, "a server has taken a batch", func() bool { return next.status().local() > 0 })
			hungry = append(hungry, next)
		}
		await(d, patient, "the pool is full again", func() bool { return pool() >= capacity })
	}
	await(d, patient, "nothing is under way any more", func() bool { return shipping("") == 0 })
	for _, s := range hungry {
		s.stop()
	}
}
