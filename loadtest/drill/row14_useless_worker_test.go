//go:build drill

package drill

import (
	"time"
)

// inVain is how long a worker may try to help itself: three restarts with growing gaps.
const inVain = 2 * time.Minute

// useless runs the pool dry with a worker that is alive and fills nothing. Its own switch
// must notice too, and end it when new workers in the same process do not help.
func (f *dry) useless(worker *service) {
	f.d.Helper()
	f.d.struck(1)
	f.mustAlarm()
	if status := worker.exit(inVain); status <= 0 {
		f.d.Errorf("the worker ended with status %d, want one that has its supervisor start it again", status)
	}
	f.end()
}

// The worker cannot connect to the Redis that the servers use.
func workerCannotConnect(d *drill) {
	f := newDry(d)
	p := newProxy(d, f.redis.Addr)
	worker := f.fill("REDIS_URL=redis://" + p.addr)
	p.away()
	f.useless(worker)
}

// Redis lets the worker do everything but push.
func pushesFail(d *drill) {
	f := newDry(d)
	client := redisClient(d, f.redis.Addr)
	allow := func(rules ...any) {
		d.Helper()
		command := append([]any{"ACL", "SETUSER", "worker"}, rules...)
		if err := client.Do(d.Context(), command...).Err(); err != nil {
			d.Fatal(err)
		}
	}
	allow("on", ">secret", "~*", "&*", "+@all")
	worker := f.fill("REDIS_URL=redis://worker:secret@" + f.redis.Addr)
	allow("-rpush")
	f.useless(worker)
}

// The worker is busy and does nothing.
func workerSpins(d *drill) {
	f := newDry(d)
	f.fill().stop()
	worker := newWorker(d, append(f.settings, "KEYPOOL_FAILPOINTS=ship:begin=skip")...)
	worker.start()
	f.useless(worker)
}
