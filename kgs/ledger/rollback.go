package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

// HighWaterMark holds the highest numbers and the highest id that a ledger is known to have issued.
type HighWaterMark struct {
	ID   int64         // the highest id of a reservation
	Next map[int]int64 // for each code length, the highest number plus one
}

// highWater is the high-water mark that one process remembers.
type highWater struct {
	mu sync.Mutex
	HighWaterMark
}

// raise sets the id and each counter of the mark to the value in seen, if that value is higher.
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

// forget deletes the mark.
func (r *highWater) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.HighWaterMark = HighWaterMark{}
}

// mark returns a copy of the mark.
func (r *highWater) mark() HighWaterMark {
	r.mu.Lock()
	defer r.mu.Unlock()
	return HighWaterMark{ID: r.ID, Next: maps.Clone(r.Next)}
}

const (
	// A skip-ahead skips a margin of numbers above the high-water mark. The margin is skipMargin, but at most
	// 1/skipPart of all codes of the length. The skip-ahead adds a random number below the margin, because a database
	// may return to the same state twice. Without the random number, the ledger would continue at the same number both
	// times.
	skipMargin = 10_000_000
	skipPart   = 100
	// skipIDs is the smallest number of ids that a skip-ahead skips. The skip-ahead adds a random number below skipIDs.
	skipIDs = 1_000_000
)

// MaxSeenID is the greatest id that Remember accepts. No ledger assigns so many ids. Without the limit, a wrong id from
// outside the ledger could make a skip-ahead use up the ids.
const MaxSeenID = 1 << 50

// Remember raises the high-water mark to the argument seen, which the caller read outside the ledger, for example from
// the shared pool. If the last id of the ledger is below the mark, the ledger skips ahead at the next change. If a counter
// is below the mark, the ledger skips ahead when it next takes numbers from this counter. Remember ignores an id above
// MaxSeenID.
func (l *Ledger) Remember(seen HighWaterMark) {
	if seen.ID > MaxSeenID {
		seen.ID = 0
	}
	l.highWater.raise(seen)
}

// SkipBeyond raises the high-water mark to the argument seen, as Remember does. If the last id of the ledger is below
// the mark, or one of its counters is below the counter in seen, the ledger skips ahead before SkipBeyond returns.
func (l *Ledger) SkipBeyond(ctx context.Context, seen HighWaterMark) error {
	l.Remember(seen)
	return l.update(ctx, "skip beyond a mark", func(ctx context.Context, t *tx) error {
		if t.rolledBack > 0 { // detectRollback has skipped ahead already
			return nil
		}
		below, err := t.counterBelow(ctx, seen)
		if err != nil || !below {
			return err
		}
		return t.skipAhead(ctx)
	})
}

// counterBelow reports whether a counter is below the mark seen.
func (t *tx) counterBelow(ctx context.Context, seen HighWaterMark) (bool, error) {
	spaces, err := collect(ctx, t.Tx, scanSpace, selectSpaces)
	return slices.ContainsFunc(spaces, func(s SpaceCounter) bool { return s.Next < seen.Next[s.Length] }), err
}

// restored is the history name that a ledger has between a call of Restored and the next change. Replace can give this
// name to the new ledger. No database has this history name, so the next change skips ahead.
const restored = "restored"

// Restored records that the database was restored from a backup. At its next change, the ledger skips ahead, even if no
// other sign shows the restore. Restored needs only the rows of a ledger, so callers need not call Open first. It fails
// with ErrNotInitialized if there is no ledger.
func (l *Ledger) Restored(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	result, err := l.write.ExecContext(ctx, `UPDATE kgs_ledger SET history = '`+restored+`' WHERE id = 1`)
	if err == nil {
		var n int64
		if n, err = result.RowsAffected(); err == nil && n == 0 {
			err = ErrNotInitialized
		}
	}
	if err != nil {
		return fmt.Errorf("ledger: record a restore: %w", err)
	}
	return nil
}

// OnSkipAhead sets the function f. If a change of this process skips ahead and abandons numbers, the ledger calls f after
// the change. f gets the count of the abandoned numbers: the skipped numbers, and the numbers of the ranges, batches and
// leases that the ledger had on record. The caller must call OnSkipAhead before it uses the ledger.
func (l *Ledger) OnSkipAhead(f func(abandoned int64)) { l.onSkipAhead = f }

// detectRollback skips ahead if the database was rolled back. It detects two cases:
//
//   - the history name of the database (present) differs from the recorded history name (kept). The history name
//     identifies the PostgreSQL cluster and its timeline. The names differ after the promotion of a standby, after a
//     point-in-time recovery, after the restore of a dump into another cluster, and after Restored;
//   - the last id is below the high-water mark, for example because older files replaced the files of the database.
//     The history name then stays the same. The mark comes from this process, the pool, or the witness of an SQLite
//     file.
//
// The check runs under the lock, before the change itself. It does not compare the counters with the high-water mark.
// The method advance does this for the counter that it reads.
func (t *tx) detectRollback(ctx context.Context, kept, present string) error {
	behind := t.behind()
	if kept == present && !behind {
		return nil
	}
	if err := t.exec(ctx, `UPDATE kgs_ledger SET history = $1 WHERE id = 1`, present); err != nil {
		return err
	}
	if kept == "" && !behind {
		return nil // no history name was recorded before
	}
	t.everyLength = kept != "" && kept != present
	return t.skipAhead(ctx)
}

// behind reports whether the last id is below the high-water mark.
func (t *tx) behind() bool { return t.last < t.highWater.mark().ID }

// skipAhead skips every number that may have been issued in the lost history, which consists of the changes that the
// rollback removed. It skips all numbers up to the high-water mark, and a margin above the mark (see skipMargin). If
// the history name differs or the witness is damaged, skipAhead skips numbers of every code length, because the lost
// history may contain the first numbers of a length. Otherwise it leaves out a length if neither the ledger nor the mark
// shows a reserved number of this length. If a length has too few numbers for the margin, skipAhead skips the rest of
// the margin in the next length. skipAhead also abandons every range that has a row, because the range may have been
// settled in the lost history. All these numbers are abandoned as [kgs.ReasonRollback]. The open leases end. If there is
// a shared pool, skipAhead opens a new epoch of each of its lists, which abandons the keys in the pool.
//
// After a rollback, the ledger can issue numbers twice if all of these conditions are true:
//
//   - processes issued the numbers before the rollback, and the numbers are beyond the margin;
//   - all these processes have ended;
//   - neither a pool nor a witness has a record of the numbers.
//
// Synchronous replication prevents such a loss of history.
func (t *tx) skipAhead(ctx context.Context) error {
	seen := t.highWater.mark()
	recorded, err := collect(ctx, t.Tx, scanRange, `UPDATE kgs_ranges SET state = 'abandoned', holder = '', origin = 0, lease = 0, reason = $1
		WHERE state <> 'abandoned' RETURNING length, lo, hi`, kgs.ReasonRollback)
	if err != nil {
		return err
	}
	t.rolledBack += codespace.Count(recorded)
	if err := t.exec(ctx, `UPDATE kgs_leases SET state = 'expired' WHERE state = 'open'`); err != nil {
		return err
	}
	t.last = max(t.last, seen.ID) + skipIDs + t.random(skipIDs)
	spaces, err := collect(ctx, t.Tx, scanSpace, selectSpaces)
	if err != nil {
		return err
	}
	rest := int64(0) // part of the margin that is left for the next length
	for _, s := range spaces {
		if s.Next == 0 && seen.Next[s.Length] == 0 && rest == 0 && !t.everyLength {
			continue // no number of this length has been reserved
		}
		margin := min(skipMargin, s.Size/skipPart)
		margin = max(rest, margin+t.random(margin))
		from := max(s.Next, seen.Next[s.Length])
		to := min(from+margin, s.Size)
		rest = from + margin - to
		if err := t.skipTo(ctx, codespace.Range{Length: s.Length, Lo: s.Next, Hi: to}); err != nil {
			return err
		}
	}
	return t.openAll(ctx)
}

// skipTo advances a counter to the end of a range and abandons the range.
func (t *tx) skipTo(ctx context.Context, numbers codespace.Range) error {
	if numbers.Len() == 0 {
		return nil
	}
	t.rolledBack += numbers.Len()
	if err := t.exec(ctx, `UPDATE kgs_spaces SET next = $1 WHERE length = $2`, numbers.Hi, numbers.Length); err != nil {
		return err
	}
	return t.abandon(ctx, numbers, kgs.ReasonRollback)
}
