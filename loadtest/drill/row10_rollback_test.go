//go:build drill

package drill

import (
	"time"

	"keypool/internal/testenv"
)

// Redis is restarted from a snapshot that was taken before 200,000 keys were. The pool
// in it is half empty.
func redisRestored(d *drill) { restoreRedis(d, false) }

// The same with a pool that is full, in the snapshot and when it comes back.
func redisRestoredFull(d *drill) { restoreRedis(d, true) }

func restoreRedis(d *drill, full bool) {
	redis := testenv.StartRedis(d, "--appendonly", "no")
	r := newRollback(d, redis.URL)
	if !full {
		r.worker.stop()
		r.takeOne()
	}
	// Only SAVE writes the file, and a start reads it.
	if err := redisClient(d, redis.Addr).Save(d.Context()).Err(); err != nil {
		d.Fatal(err)
	}
	if !full {
		r.worker.start()
	}
	r.take()
	epoch := r.epoch()
	redis.Kill()
	redis.Restart()
	r.judge(time.Now(), epoch)
}

// The master of a Redis that is replicated dies, and what is promoted has not heard of
// the last 200,000 keys that were taken.
func redisFailsOver(d *drill) {
	master, replica := testenv.StartRedis(d), testenv.StartRedis(d)
	behind := redisClient(d, replica.Addr)
	follow(d, behind, master)
	proxy := newProxy(d, master.Addr) // as the address that clients find the master by
	r := newRollback(d, "redis://"+proxy.addr)
	awaitInStep(d, behind, master)
	replica.Pause()
	// The link is cut too: what is on it already the replica would still read.
	if err := redisClient(d, master.Addr).Do(d.Context(), "CLIENT", "KILL", "TYPE", "replica").Err(); err != nil {
		d.Fatal(err)
	}
	r.take()
	epoch := r.epoch()
	master.Kill()
	replica.Resume()
	if err := behind.Do(d.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		d.Fatal(err)
	}
	proxy.lead(replica.Addr)
	r.judge(time.Now(), epoch)
}
