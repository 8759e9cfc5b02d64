package pgpool

import (
	"context"
	"fmt"
	"sync"
	"time"

	"keypool/kgs"
)

// frontLife is the longest time for which takers may overlook a free row.
const frontLife = time.Minute

// front is the id at which the search for free rows begins. The rows before it are deleted and
// wait for the vacuum. A search that reads them again on each Take would get slower and slower.
// The id is only a hint: when a Take fails, its rows become free again after others have skipped
// them. So front is reset to 0 after frontLife.
type front struct {
	mu    sync.Mutex
	id    int64
	since time.Time // when id was last reset
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

// Status measures the pool without counting its rows. Ids have no gaps, and Take takes rows in
// the order of their ids. So the size of the pool is the number of ids from its first free row to
// its last row. This count includes the few rows that takers have locked at this moment, and the
// codes that two workers drew at the same moment. Status reads both ends from the table, so it
// notices a table that was emptied by hand.
//
// Status fails with [kgs.ErrNoEpoch] if the pool was filled before the database came back from an
// older state, or before a standby was promoted. Servers may have handed out its keys since.
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
