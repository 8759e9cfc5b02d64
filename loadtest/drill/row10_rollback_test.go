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
