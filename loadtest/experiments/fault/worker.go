package fault

import (
	"fmt"
	"time"

	"keypool/loadtest/lab"
)

// workerRows returns the fault rows in which workers are killed, frozen, or started at once.
func workerRows() []row {
	return []row{
		{
			Name: "fault/3", Title: "worker killed at each step of a refill", Suites: changeToo(), Failpoints: true,
			Summary: "A worker moves a range from the ledger to the pool in several steps. Workers kill themselves with SIGKILL, one after the other, each after one of these steps: " +
				"epoch opened, range reserved, chunk pushed, all chunks pushed, delivery recorded, mark of the range deleted.",
			Run: inject(workerKilled), Controls: without(keysOnce, "mark"),
			Claims: theLinks(
				keysAreUnique(),
				timed("refill resumes in time", "Within 10 s of its start, each worker reaches the step at which it kills itself. The last worker, which is not killed, pushes keys within 10 s of its start."),
				observed(recovers, "After the last kill, the pool becomes full."),
				observed(abandoned, "At the end, the run also kills a server. Only the keys in the batches of this server are abandoned. No key of a killed worker is abandoned."),
			),
		},
		{
			Name: "fault/4", Title: "worker frozen until another worker adopts its range", Failpoints: true,
			Summary: "A worker stops itself with SIGSTOP after it has reserved a range and before it pushes the range. " +
				"Another worker delivers this range. Then the first worker gets SIGCONT and continues.",
			Run: inject(workerThaws), Controls: without(keysOnce, "floor"),
			Claims: theLinks(
				keysAreUnique(),
				observed("range adopted", "Another worker delivers the range of the frozen worker."),
				observed(recovers, "After SIGCONT, the first worker continues with other ranges."),
			),
		},
		{
			Name: "fault/5", Title: "16 workers start at once",
			Summary: "16 workers start at the same moment on an empty pool.",
			Run:     inject(workersAtOnce), Controls: without("pool not overfilled", "size"),
			Claims: theLinks(
				observed(recovers, "After the start, the workers fill the pool."),
				counted("pool not overfilled", "keys in the pool", "The number of keys in the pool is at most its capacity plus one range of 5,000 keys for each worker."),
				observed(abandoned, "No key is abandoned, because all programs are stopped with SIGTERM."),
			),
		},
	}
}

// workerKilled starts one worker after the other. Each worker kills itself at one step of the refill. The pool has room
// for all keys that the workers push, so each worker has a range to push.
func workerKilled(r *run) {
	const capacity = 400_000 // with this capacity, a range has 20,000 keys and needs two pushes
	r.databases(fmt.Sprintf("KGS_POOL_CAPACITY=%d", capacity), longCodes)
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
	lab.Wait(r, patient, "the next worker has pushed keys", func() bool { return pushed(worker) > 0 })
	r.took("refill resumes in time", refillAgain, time.Since(killed))
	worker.AwaitReady(patient)
	r.refills(server, "the last worker was ready")
	lost := awaitDeaths(r, server, worker)
	makeRoom(r, capacity, 100_000)
	worker.Stop()
	r.sawAbandoned(r.end(server), lost)
}

// refillAgain is the longest time that a worker may take from its start to its first push, or to the step at which it
// kills itself.
const refillAgain = 10 * time.Second

// killWorkerAt runs a worker until it kills itself at a step.
func killWorkerAt(r *run, step string) {
	worker, began := r.worker("KEYPOOL_FAILPOINTS="+step+"=kill"), time.Now()
	worker.Launch()
	lab.Wait(r, patient, "the worker has reached the step "+step+" and ended", worker.Ended)
	r.took("refill resumes in time", refillAgain, time.Since(began))
	if status := worker.Exit(patient); status != -1 {
		r.Fatalf("the worker ended with status %d, but it must kill itself at the step %s; its log:\n%s", status, step, worker.Tail())
	}
	r.strike(1)
}

// pushed returns how many keys a worker has pushed since its start. It returns 0 while the worker does not
// answer, because a worker that was just launched has pushed no key.
func pushed(worker *lab.Program) float64 {
	n, err := worker.TryCounter("kgs_keys_generated_total")
	if err != nil {
		return 0
	}
	return n
}

// awaitDeaths waits until the ledger knows that all killed programs are dead. For this purpose it starts and
// kills one more server, and waits until the programs in witnesses have abandoned the keys of this server. The
// other programs were killed earlier, so they then count as dead too. awaitDeaths returns the number of the
// abandoned keys.
func awaitDeaths(r *run, witnesses ...*lab.Program) (keys int64) {
	last := r.started(noWorker)
	lab.Wait(r, patient, "the server has keys", func() bool {
		keys = local(r, last)
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

// local returns the number of keys that a server has in its batches.
func local(r lab.T, server *lab.Program) int64 {
	return known(r, "the number of its local keys", server.Status().LocalKeys)
}

// known returns the value of a member of a status. It ends the run if the program reports no value, because 0
// would be a wrong observation.
func known(r lab.T, what string, member *int64) int64 {
	if member == nil {
		r.Fatalf("a program does not report %s", what)
		return 0
	}
	return *member
}

// lostToCrashes returns the number of keys that a process abandoned because their holder was dead.
func lostToCrashes(p *lab.Program) float64 {
	return p.Counter("kgs_keys_abandoned_total", "reason", "crash")
}

// makeRoom takes keys from the pool until the workers have delivered the ranges of all dead holders. A worker
// adopts such a range only when it fills the pool. It fills the pool when the pool has fallen below nine tenths of
// its capacity (the low-water mark). Therefore makeRoom starts servers that take batches of the given number of
// keys. It reads Redis and the ledger directly, because /status can be a second old and an audit reads all keys.
func makeRoom(r *run, capacity, keys int64) {
	client := lab.RedisClient(r, r.redis.URL)
	pool := func() int64 {
		n, err := lab.ListedKeys(r.Context(), client)
		r.Must(err)
		return n
	}
	low := capacity - capacity/10
	var takers []*lab.Program
	for shipping(r, ` AND holder NOT IN (SELECT holder FROM kgs_holders)`) > 0 {
		for pool() >= low {
			next := r.started(noWorker, fmt.Sprintf("KGS_BATCH_MIN=%d", keys))
			lab.Wait(r, patient, "a server has taken a batch", func() bool { return local(r, next) > 0 })
			takers = append(takers, next)
		}
		lab.Wait(r, patient, "the workers fill the pool", func() bool { return pool() >= capacity })
	}
	lab.Wait(r, patient, "every reserved range is delivered", func() bool { return shipping(r, "") == 0 })
	each(takers, (*lab.Program).Stop)
}

// shipping returns the number of ranges that are reserved, are not delivered yet and match a condition. The parameter
// condition is SQL that begins with AND, or "".
func shipping(r *run, condition string) int {
	return lab.Value[int](r, r.links, `SELECT count(*) FROM kgs_ranges WHERE state = 'shipping'`+condition)
}

// workerThaws freezes a worker that is about to push a range. The ledger declares the worker dead, and another
// worker delivers the range. Then the first worker continues.
func workerThaws(r *run) {
	r.fastDatabases("KGS_POOL_CAPACITY=20000")
	server := r.server(noWorker)
	// This worker stops itself when it has reserved its third range.
	frozen := r.worker("KEYPOOL_FAILPOINTS=ship:reserved=stop:3")
	second := r.worker()
	// Each start of this server takes keys from the pool, so that the workers have ranges to push.
	taker := r.server(noWorker, "KGS_BATCH_MIN=2000")

	server.Launch()
	frozen.Launch()
	lab.Wait(r, patient, "the worker has stopped itself", frozen.Frozen)
	r.strike(1)
	second.Start()
	server.AwaitReady(patient)
	r.start(server, 200)
	r.becomes("range adopted", "the start of the load", "the range of the frozen worker is delivered", func() bool {
		taker.Start()
		taker.Stop()
		return r.audit(server).Shipping == 0
	})
	frozen.Thaw()
	r.becomes(recovers, "SIGCONT", "the first worker has pushed three ranges", func() bool {
		taker.Start()
		taker.Stop()
		return pushed(frozen) >= 3000 // three ranges of a thousand keys
	})
	frozen.Stop()
	second.Stop()
	r.end(server)
}

// together is the number of processes of each kind that start at the same moment.
const together = 16

// workersAtOnce starts many workers on an empty pool.
func workersAtOnce(r *run) {
	const capacity, chunk = 100_000, 5000 // chunk is the number of keys in a range
	r.fastDatabases(fmt.Sprintf("KGS_POOL_CAPACITY=%d", capacity), longCodes)
	server := r.started(noWorker)
	load := r.start(server, 200)
	workers := launch(together, func() *lab.Program { return r.worker() })
	r.strike(together)
	each(workers, awaitReady)
	r.refills(server, "all workers were ready")
	load.AwaitMore(int64(r.Times(1000)))
	r.stop(load)
	each(workers, (*lab.Program).Stop)
	server.Restart()
	var keys *int64
	lab.Wait(r, patient, "the server reports the size of the pool", func() bool { keys = server.Status().PoolKeys; return keys != nil })
	r.figure("pool not overfilled", capacity+together*chunk, float64(*keys), "the pool has %d keys, its capacity is %d keys, and a range has %d keys", *keys, capacity, chunk)
	r.sawAbandoned(r.end(server), 0)
}
