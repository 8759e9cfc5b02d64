package pgpool

import (
	"context"
	"fmt"
	"sync"
	"time"

	"keypool/kgs"
)

// frontLife is how long a row that was overlooked may stay so.
const frontLife = time.Minute

// front is the id from which on free rows are looked for. What lies before it is dead and
// waits for the vacuum: to walk over it again with each take is what makes a table a bad
// queue. It is only a hint, for a taker that fails leaves rows behind that others
// have skipped, and so it is forgotten now and then.
type front struct {
	mu    sync.Mutex
	id    int64
	since time.Time // when it was last forgotten
}

func (f *front) load() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.since) > frontLife {
		f.id, f.since = 0, time.Now()
	}
	return f.id
}

func (f *front) store(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id = id
}

func (f *front) forget() { f.store(0) }

// Status looks at the pool without counting it. Ids have no gaps and are taken in order,
// so what the pool holds is what lies between its first free row and its last, but for
// the few that two instances drew at once, and that takers have locked at this moment. Both
// ends are looked up, not remembered: a table that somebody emptied is seen to be empty.
//
// It fails with ErrNoEpoch for a pool that was filled before the database came back from
// an older state, or was promoted: its keys may have been given out since.
func (p *Pool) Status(ctx context.Context) (kgs.PoolStatus, error) {
	from := p.front.load()
	var last int64
	var present bool
	var first, back *int64
	if err := p.db.QueryRow(ctx, poolStatus, from).Scan(&last, &present, &first, &back); err != nil {
		return kgs.PoolStatus{}, fmt.Errorf("status of the pool: %w", err)
	}
	if first == nil && from > 0 {
		p.front.forget()
		return p.Status(ctx)
	}
	s := kgs.PoolStatus{Pushed: last, Taken: last}
	if first != nil {
		s.Keys, s.Taken = *back-*first+1, *first-1
		p.front.store(*first)
	}
	if !present {
		return s, kgs.ErrNoEpoch
	}
	return s, nil
}
