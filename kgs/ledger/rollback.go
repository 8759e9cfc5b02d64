package ledger

import (
	"context"
	"maps"
	"sync"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

// HighWaterMark is the highest numbers and the highest id that a ledger is known to have
// issued.
type HighWaterMark struct {
	ID   int64         // the highest id of a reservation
	Next map[int]int64 // by code length, the number after the highest one
}

// highWater is the high-water mark that one process remembers.
type highWater struct {
	mu sync.Mutex
	HighWaterMark
}

// raise raises the mark to seen where seen is higher.
func (r *highWater) raise(seen HighWaterMark) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ID = max(r.ID, seen.ID)
	for length, next := range seen.Next {
		if r.Next == nil {
			r.Next = make(map[int]int64)
		}
		r.Next[length] = max(r.Next[length], next)
	}
}

// mark returns a copy of the mark.
func (r *highWater) mark() HighWaterMark {
	r.mu.Lock()
	defer r.mu.Unlock()
	return HighWaterMark{ID: r.ID, Next: maps.Clone(r.Next)}
}

const (
	// skipMargin is how many numbers beyond the high-water mark a skip-ahead leaves out, or
	// 1/skipPart of the space if that is less.
	skipMargin = 10_000_000
	skipPart   = 100
	// skipIDs is how many ids it leaves out.
	skipIDs = 1_000_000
)

// Remember raises the high-water mark to what another witness, such as the shared pool, has
// seen of this ledger. A ledger that turns out to be below the mark skips ahead.
func (l *Ledger) Remember(seen HighWaterMark) { l.highWater.raise(seen) }

// OnSkipAhead has f called after every skip-ahead of this process, with the number of numbers
// left out. Call it before the ledger is used.
func (l *Ledger) OnSkipAhead(f func(left int64)) { l.onSkipAhead = f }

// detectRollback skips ahead when the database came back from an older state: a standby that
// lagged behind was promoted, or a backup was restored. Its history has another name then. If
// older files were put back, the name is the same, but the ledger is below the high-water
// mark. The check runs under the lock, so it precedes any other change by a process that can
// detect the rollback; see also advance.
func (t *tx) detectRollback(ctx context.Context, kept, present string) error {
	behind := t.last < t.highWater.mark().ID
	if kept == present && !behind {
		return nil
	}
	if err := t.exec(ctx, `UPDATE kgs_ledger SET history = $1 WHERE id = 1`, present); err != nil {
		return err
	}
	if kept == "" && !behind {
		return nil // it had no name yet
	}
	return t.skipAhead(ctx)
}

// skipAhead leaves out every number that may have been issued in the lost history: all up to
// the high-water mark, and a margin. What has a row may have been settled in that history, so
// it is written off; a new epoch writes off the shared pool. All of it is abandoned as
// [kgs.ReasonRollback].
//
// If processes issued numbers beyond the margin, and all of them died, and no pool remembers
// those numbers, the ledger issues them again. Synchronous replication prevents that.
func (t *tx) skipAhead(ctx context.Context) error {
	seen := t.highWater.mark()
	err := t.exec(ctx, `UPDATE kgs_ranges SET state = 'abandoned', holder = '', origin = 0, lease = 0, reason = $1
		WHERE state <> 'abandoned'`, kgs.ReasonRollback)
	if err != nil {
		return err
	}
	if err := t.exec(ctx, `UPDATE kgs_leases SET state = 'expired' WHERE state = 'open'`); err != nil {
		return err
	}
	t.last = max(t.last, seen.ID) + skipIDs
	spaces, err := collect(ctx, t.Tx, scanSpace, selectSpaces)
	if err != nil {
		return err
	}
	rest := int64(0) // of the margin, for the next length
	for _, s := range spaces {
		if s.Next == 0 && seen.Next[s.Length] == 0 && rest == 0 {
			continue // not used yet
		}
		margin := max(rest, min(skipMargin, s.Size/skipPart))
		from := max(s.Next, seen.Next[s.Length])
		to := min(from+margin, s.Size)
		rest = from + margin - to
		if err := t.skipTo(ctx, codespace.Range{Length: s.Length, Lo: s.Next, Hi: to}); err != nil {
			return err
		}
	}
	if t.epoch == 0 {
		return nil // there never was a shared pool
	}
	return t.openEpoch(ctx, t.epoch+1, "")
}

// skipTo advances a counter to the end of a range and abandons the range.
func (t *tx) skipTo(ctx context.Context, numbers codespace.Range) error {
	if numbers.Len() == 0 {
		return nil
	}
	t.skipped += numbers.Len()
	if err := t.exec(ctx, `UPDATE kgs_spaces SET next = $1 WHERE length = $2`, numbers.Hi, numbers.Length); err != nil {
		return err
	}
	return t.abandon(ctx, numbers, kgs.ReasonRollback)
}
