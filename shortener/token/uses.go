package token

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// useUnit is the precision of Token.LastUsedAt. So for each token, a server writes at most once per
	// hour.
	useUnit = time.Hour
	// recordRetry is the interval at which the recorder tries again to record uses that it could not record.
	recordRetry = time.Minute
	// recordTimeout is the time limit for recording one use.
	recordTimeout = 5 * time.Second
)

// uses contains the last hour in which a token was used. An hour is a number of hours since 1970.
type uses struct {
	last     atomic.Int64
	recorded int64 // the last hour that this server read from the database or stored; after newUses, only the recorder uses this field
}

func newUses(last time.Time) *uses {
	u := &uses{}
	if !last.IsZero() {
		u.recorded = hourOf(last)
	}
	u.last.Store(u.recorded)
	return u
}

func hourOf(t time.Time) int64 { return t.Unix() / int64(useUnit/time.Second) }

// noteUse notes a use of a token for the recorder. noteUse is cheap: only the first use in an hour needs
// more than one atomic read.
func (r *Registry) noteUse(e *entry, now time.Time) {
	hour := hourOf(now)
	if last := e.uses.last.Load(); last < hour && e.uses.last.CompareAndSwap(last, hour) {
		signal(r.used)
	}
}

// runRecorder records uses soon after they are noted. After a failure, it tries again at the next use that
// noteUse signals, and at the latest after recordRetry.
func (r *Registry) runRecorder(ctx context.Context) {
	retry := time.NewTicker(recordRetry)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.used:
		case <-retry.C:
		}
		if err := r.record(ctx); ctx.Err() == nil {
			r.notes.Record(err)
		}
	}
}

// record stores the uses that are not in the database yet. It stops at the first error, because the next
// writes would probably fail too.
func (r *Registry) record(ctx context.Context) error {
	for id, e := range r.tokens.Load().byID {
		hour := e.uses.last.Load()
		if hour <= e.uses.recorded {
			continue
		}
		if err := r.recordOne(ctx, id, hour); err != nil {
			return err
		}
		e.uses.recorded = hour
	}
	return nil
}

func (r *Registry) recordOne(ctx context.Context, id, hour int64) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	return r.store.recordUse(ctx, id, time.Unix(hour*int64(useUnit/time.Second), 0).UTC())
}
