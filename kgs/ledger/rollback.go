package ledger

import (
	"context"
	"maps"
	"sync"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

// HighWaterMark is how far the numbers of a ledger are known to have come.
type HighWaterMark struct {
	ID   int64         // the highest range id that was seen
	Next map[int]int64 // by code length, the number after the highest that was seen
}

// highWater is the Reach that one process remembers.
type highWater struct {
	mu sync.Mutex
	HighWaterMark
}

// raise extends what is remembered.
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

// mark is what is remembered.
func (r *highWater) mark() HighWaterMark {
	r.mu.Lock()
	defer r.mu.Unlock()
	return HighWaterMark{ID: r.ID, Next: maps.Clone(r.Next)}
}

const (
	// skipMargin is how many numbers a jump leaves out beyond all that anybody remembers,
	// or a jumpPart of the space where that is less.
	skipMargin = 10_000_000
	skipPart   = 100
	// skipIDs is how many range ids it leaves out.
	skipIDs = 1_000_000
)

// Remember notes how far somebody else, such as the shared pool, has seen this ledger
// come: should it turn out to be behind that, it jumps.
func (l *Ledger) Remember(seen HighWaterMark) { l.highWater.raise(seen) }

// OnSkipAhead has f told of every jump that this process makes, with how many numbers it left
// out. It is to be called before the ledger is used.
func (l *Ledger) OnSkipAhead(f func(left int64)) { l.onSkipAhead = f }

// detectRollback jumps when this ledger's database came back from an older state: a standby that
// lagged behind was promoted, or a backup recovered. Its history has another name then;
// or, as after older files were put back, it has not come as far as it was seen to.
// That is found out under the lock, so before anything else is done to such a ledger
// by anybody who can know; see also advance.
func (p *tx) detectRollback(ctx context.Context, kept, present string) error {
	behind := p.last < p.highWater.mark().ID
	if kept == present && !behind {
		return nil
	}
	if err := p.exec(ctx, `UPDATE kgs_ledger SET history = $1 WHERE id = 1`, present); err != nil {
		return err
	}
	if kept == "" && !behind {
		return nil // it had no name yet
	}
	return p.skipAhead(ctx)
}

// skipAhead leaves out every number that could have been handed out in the history that was
// lost: all that this process has seen, itself or in the shared pool, and a margin.
// What is open in the books may have been closed since: it is written off, and so is
// the shared pool, by a new epoch. All this is abandoned as [ReasonRollback].
//
// Numbers that were reserved and handed out beyond the margin by processes that have
// all died, without a pool that remembers, would be given out again: no ledger can
// know of them. Synchronous replication is the remedy.
func (p *tx) skipAhead(ctx context.Context) error {
	seen := p.highWater.mark()
	err := p.exec(ctx, `UPDATE kgs_ranges SET state = 'abandoned', holder = '', origin = 0, lease = 0, reason = $1
		WHERE state <> 'abandoned'`, kgs.ReasonRollback)
	if err != nil {
		return err
	}
	if err := p.exec(ctx, `UPDATE kgs_leases SET state = 'expired' WHERE state = 'open'`); err != nil {
		return err
	}
	p.last = max(p.last, seen.ID) + skipIDs
	spaces, err := collect(ctx, p.Tx, scanSpace, selectSpaces)
	if err != nil {
		return err
	}
	rest := int64(0) // of the margin, for the next length
	for _, s := range spaces {
		if s.Next == 0 && seen.Next[s.Length] == 0 && rest == 0 {
			continue // nobody was there yet
		}
		margin := max(rest, min(skipMargin, s.Size/skipPart))
		from := max(s.Next, seen.Next[s.Length])
		to := min(from+margin, s.Size)
		rest = from + margin - to
		if err := p.skipTo(ctx, codespace.Range{Length: s.Length, Lo: s.Next, Hi: to}); err != nil {
			return err
		}
	}
	if p.epoch == 0 {
		return nil // there never was a shared pool
	}
	return p.openEpoch(ctx, p.epoch+1, "")
}

// skipTo advances a counter to the end of run and abandons the numbers of run.
func (p *tx) skipTo(ctx context.Context, run codespace.Range) error {
	if run.Len() == 0 {
		return nil
	}
	p.skipped += run.Len()
	if err := p.exec(ctx, `UPDATE kgs_spaces SET next = $1 WHERE length = $2`, run.Hi, run.Length); err != nil {
		return err
	}
	return p.abandon(ctx, run, kgs.ReasonRollback)
}
