package fault

import (
	"context"
	"fmt"
	"time"

	"keypool/loadtest/lab"

	"github.com/jackc/pgx/v5"
)

// workerRows are the faults of workers.
func workerRows() []row {
	return []row{
		{
			Name: "fault/3", Title: "worker killed at each step", Suites: changeToo(), Failpoints: true,
			Summary: "Workers kill themselves with SIGKILL at each step on the way of a range from the ledger to the pool: " +
				"epoch opened, range reserved, chunk pushed, all pushed, delivered, forgotten.",
			Run: inject(workerKilled), Controls: without(keysOnce, "mark"),
			Claims: theLinks(
				keysAreUnique(),
				timed("refill", "The next worker is at work within 10 s of its start."),
				observed(recovers, "The pool fills after the last kill."),
				observed(abandoned, "Only the keys in the batches of a killed server are abandoned, and none of a killed worker."),
			),
		},
		{
			Name: "fault/4", Title: "worker frozen, its range adopted, then thawed", Failpoints: true,
			Summary: "A worker stops itself with SIGSTOP between reserve and push. Another worker delivers its range. The first one gets SIGCONT and goes on.",
			Run:     inject(workerThaws), Controls: without(keysOnce, "floor"),
			Claims: theLinks(
				keysAreUnique(),
				observed("adoption", "Another worker delivers the range of the frozen one."),
				observed(recovers, "The thawed worker goes on with other ranges."),
			),
		},
		{
			Name: "fault/5", Title: "16 workers at once",
			Summary: "16 workers start at the same moment on an empty pool.",
			Run:     inject(workersAtOnce), Controls: without("capacity", "size"),
			Claims: theLinks(
				observed(recovers, "The workers fill the pool."),
				counted("capacity", "keys", "The pool has at most its capacity and one chunk a worker."),
				observed(abandoned, "Orderly stops abandon no key."),
			),
		},
	}
}

// Workers kill themselves at every step, each followed by one that goes on to its own
// step. The pool has room for all that they push, so that there is always something to do.
func workerKilled(r *run) {
	const capacity = 400_000 // shipped in ranges of 20,000, which take two pushes
	r.databases(fmt.Sprintf("KGS_POOL_CAPACITY=%d", capacity))
	server := r.started(noWorker)
	r.start(server, 200)
	killWorkerAt(r, "epoch:opened")
	for range r.Times(3) {
		for _, step := range []string{"ship:reserved", "ship:pushed", "ship:pushed-all", "ship:delivered", "ship:forgotten"} {
			killWorkerAt(r, step)
		}
	}

	worker, killed := r.worker(), time.Now()
	worker.Launch()
	lab.Wait(r, patient, "the next worker refills", func() bool { return pushed(worker) > 0 })
	r.took("refill", refillAgain, time.Since(killed))
	worker.AwaitReady(patient)
	r.refills(server)
	lost := awaitDeaths(r, server, worker)
	makeRoom(r, capacity, 100_000)
	worker.Stop()
	r.sawAbandoned(r.end(server), lost)
}

// refillAgain is how soon a worker that follows a killed one must be at work.
const refillAgain = 10 * time.Second

// killWorkerAt runs a worker until it kills itself at a step.
func killWorkerAt(r *run, step string) {
	worker, began := r.worker("KEYPOOL_FAILPOINTS="+step+"=kill"), time.Now()
	worker.Launch()
	lab.Wait(r, patient, "the worker comes to "+step, worker.Ended)
	r.took("refill", refillAgain, time.Since(began))
	if status := worker.Exit(patient); status != -1 {
		r.Fatalf("the worker that was to be killed at %s ended with status %d:\n%s", step, status, worker.Tail())
	}
	r.strike(1)
}

// pushed is how many keys a worker pushed since its start, 0 while it does not answer: a
// row waits for keys of a worker that was just launched.
func pushed(worker *lab.Program) float64 {
	n, err := worker.TryCounter("kgs_keys_generated_total")
	if err != nil {
		return 0
	}
	return n
}

// awaitDeaths kills a server and waits until its keys are abandoned. Then all that were
// killed before are known to be dead, too. It returns the number of its keys.
func awaitDeaths(r *run, witnesses ...*lab.Program) (keys int64) {
	last := r.started(noWorker)
	lab.Wait(r, patient, "the server has keys", func() bool {
		keys = local(last)
		return keys == 2*100 // two batches of the smallest size
	})
	last.Kill()
	lab.Wait(r, patient, "the keys of the killed server are abandoned", func() bool {
		var known float64
		for _, w := range witnesses {
			known += lostToCrashes(w)
		}
		return known >= float64(keys)
	})
	return keys
}

// local is how many keys a server has in its batches.
func local(server *lab.Program) int64 { return lab.Known(server.Status().LocalKeys, 0) }

// lostToCrashes is how many keys a process abandoned because their holder is dead.
func lostToCrashes(p *lab.Program) float64 {
	return p.Counter("kgs_keys_abandoned_total", "reason", "crash")
}

// makeRoom starts more and more servers that take batches of so many keys out of the pool, below
// the mark from which it is refilled to its capacity, until the workers have adopted and delivered
// the ranges of those that are known to be dead. It looks into Redis and the ledger by
// itself: /status is a second old, and an audit reads all keys.
func makeRoom(r *run, capacity, keys int64) {
	client := lab.RedisClient(r, r.redis.URL)
	pool := func() int64 {
		n, err := lab.ListedKeys(r.Context(), client)
		r.Must(err)
		return n
	}
	var hungry []*lab.Program
	for shipping(r, ` AND holder NOT IN (SELECT holder FROM kgs_holders)`) > 0 {
		for pool() >= capacity-capacity/10 {
			next := r.started(noWorker, fmt.Sprintf("KGS_BATCH_MIN=%d", keys))
			lab.Wait(r, patient, "a server has taken a batch", func() bool { return local(next) > 0 })
			hungry = append(hungry, next)
		}
		lab.Wait(r, patient, "the pool is full again", func() bool { return pool() >= capacity })
	}
	lab.Wait(r, patient, "no range is under way", func() bool { return shipping(r, "") == 0 })
	each(hungry, (*lab.Program).Stop)
}

// shipping is how many ranges that match a condition are reserved and not delivered.
func shipping(r *run, and string) (n int) {
	lab.Query(r, r.links, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT count(*) FROM kgs_ranges WHERE state = 'shipping'`+and).Scan(&n)
	})
	return n
}

// A worker freezes when it is about to push a range, is declared dead, another one
// delivers the range, and then the first one thaws and goes on.
func workerThaws(r *run) {
	r.fastDatabases("KGS_POOL_CAPACITY=20000")
	server := r.server(noWorker)
	// It stops itself when it has reserved its third range.
	frozen := r.worker("KEYPOOL_FAILPOINTS=ship:reserved=stop:3")
	heir := r.worker()
	// What it takes at its start and returns at its stop keeps the workers at work.
	hungry := r.server(noWorker, "KGS_BATCH_MIN=2000")

	server.Launch()
	frozen.Launch()
	lab.Wait(r, patient, "the worker has stopped itself", frozen.Frozen)
	r.strike(1)
	heir.Start()
	server.AwaitReady(patient)
	r.start(server, 200)
	r.becomes("adoption", "the range of the frozen worker is delivered", func() bool {
		hungry.Start()
		hungry.Stop()
		return r.audit(server).Shipping == 0
	})
	frozen.Thaw()
	r.becomes(recovers, "the thawed worker ships again", func() bool {
		hungry.Start()
		hungry.Stop()
		return pushed(frozen) >= 3000 // a third range of a thousand keys
	})
	frozen.Stop()
	heir.Stop()
	r.end(server)
}

// together is how many processes of a kind start at the same moment.
const together = 16

func workersAtOnce(r *run) {
	const capacity, chunk = 100_000, 5000
	r.fastDatabases(fmt.Sprintf("KGS_POOL_CAPACITY=%d", capacity))
	server := r.started(noWorker)
	load := r.start(server, 200)
	workers := launch(together, func() *lab.Program { return r.worker() })
	r.strike(together)
	each(workers, awaitReady)
	r.refills(server)
	load.AwaitMore(int64(r.Times(1000)))
	r.stop(load)
	each(workers, (*lab.Program).Stop)
	server.Restart()
	lab.Wait(r, patient, "the server sees the pool", func() bool { return server.Status().PoolKeys != nil })
	keys := lab.Known(server.Status().PoolKeys, 0)
	r.figure("capacity", capacity+together*chunk, float64(keys), "%d keys for a capacity of %d and chunks of %d", keys, capacity, chunk)
	r.sawAbandoned(r.end(server), 0)
}
