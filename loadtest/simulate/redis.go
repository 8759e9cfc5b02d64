package simulate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"keypool/kgs"
)

var errDown = errors.New("no connection to Redis")

// keyRange contains the numbers from lo to hi-1.
type keyRange struct{ lo, hi int64 }

func (s keyRange) len() int64 { return s.hi - s.lo }

// redis is the model of Redis with the pool. It serves one request at a time. Requests that arrive at the same
// moment are served in the order of their callers, so that a run can be repeated exactly.
type redis struct {
	mu    sync.Mutex
	queue []*request
	busy  time.Time // time until which Redis is busy with requests
	down  bool

	open      bool // false if Redis lost its data and no worker has begun a new epoch yet
	epoch     int64
	keys      []keyRange // keys in the pool, in the order in which they are taken
	size      int64
	taken     int64 // the fields from taken to batches count from the start of the run
	pushed    int64
	returned  int64
	lost      int64 // keys in the pool when Redis lost its data
	abandoned int64 // unused keys that a server returned and the pool did not take back
	batches   int64
	inEpoch   kgs.PoolStatus // its fields Taken and Pushed count from the start of the epoch
	empty     time.Time      // when a server first took the last key
}

// request is one call of Redis.
type request struct {
	arrives time.Time
	caller  int
	work    func() time.Duration // changes the pool and returns how long Redis is busy
	err     error
	done    time.Time
}

// call sends a request and waits for the reply. The request and the reply take the time oneWay each.
func (r *redis) call(ctx context.Context, caller int, work func() time.Duration) error {
	q := &request{arrives: time.Now().Add(oneWay), caller: caller, work: work}
	r.mu.Lock()
	r.queue = append(r.queue, q)
	r.mu.Unlock()
	pause(oneWay)
	r.mu.Lock()
	r.serve(time.Now())
	r.mu.Unlock()
	pause(time.Until(q.done.Add(oneWay)))
	return cmp.Or(q.err, ctx.Err())
}

// serve carries out all requests that have arrived, and sets the time at which each request is done. The caller
// holds mu.
func (r *redis) serve(now time.Time) {
	if len(r.queue) == 0 || r.queue[0].arrives.After(now) {
		return
	}
	n := slices.IndexFunc(r.queue, func(q *request) bool { return q.arrives.After(now) })
	if n < 0 {
		n = len(r.queue)
	}
	slices.SortStableFunc(r.queue[:n], func(a, b *request) int { return cmp.Compare(a.caller, b.caller) })
	for _, q := range r.queue[:n] {
		if r.down {
			q.err, q.done = errDown, now
			continue
		}
		if r.busy.Before(q.arrives) {
			r.busy = q.arrives
		}
		r.busy = r.busy.Add(q.work())
		q.done = r.busy
	}
	r.queue = slices.Delete(r.queue, 0, n)
}

// refusal returns why Redis cannot give keys, or nil. The caller holds mu.
func (r *redis) refusal() error {
	switch {
	case !r.open:
		return kgs.ErrNoEpoch
	case r.size == 0:
		return kgs.ErrEmpty
	}
	return nil
}

// take removes up to n keys from the pool. The caller holds mu.
func (r *redis) take(n int64) (got []keyRange) {
	for n > 0 && len(r.keys) > 0 {
		first := &r.keys[0]
		s := keyRange{first.lo, min(first.hi, first.lo+n)}
		got = append(got, s)
		first.lo, n = s.hi, n-s.len()
		r.size, r.taken, r.inEpoch.Taken = r.size-s.len(), r.taken+s.len(), r.inEpoch.Taken+s.len()
		if first.len() == 0 {
			r.keys = r.keys[1:]
		}
	}
	if r.size == 0 && r.empty.IsZero() {
		r.empty = r.busy
	}
	return got
}

// add appends keys to the pool. The caller holds mu.
func (r *redis) add(s keyRange) {
	if n := len(r.keys); n > 0 && r.keys[n-1].hi == s.lo {
		r.keys[n-1].hi = s.hi
	} else {
		r.keys = append(r.keys, s)
	}
	r.size += s.len()
}

// push appends keys for a worker. It fails if the keys belong to an epoch that has ended. The caller holds mu.
func (r *redis) push(epoch int64, s keyRange) error {
	if !r.open || epoch != r.epoch {
		return kgs.ErrFenced
	}
	r.add(s)
	r.pushed, r.inEpoch.Pushed = r.pushed+s.len(), r.inEpoch.Pushed+s.len()
	return nil
}

// begin begins an epoch with an empty pool. The caller holds mu.
func (r *redis) begin() {
	r.open, r.epoch, r.inEpoch = true, r.epoch+1, kgs.PoolStatus{}
}

// kill stops Redis, which loses the pool.
func (r *redis) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down, r.open = true, false
	r.lost, r.keys, r.size = r.lost+r.size, nil, 0
}

func (r *redis) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = false
}

// status returns the state of the pool. The call takes no time in the model, because the size of the pool hardly
// changes during such a call.
func (r *redis) status(context.Context) (kgs.PoolStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.inEpoch
	s.Keys, s.Epoch = r.size, r.epoch
	switch {
	case r.down:
		return kgs.PoolStatus{}, errDown
	case !r.open:
		return kgs.PoolStatus{}, kgs.ErrNoEpoch
	}
	return s, nil
}

// level returns the number of keys in the pool.
func (r *redis) level() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.size
}
