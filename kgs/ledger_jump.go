package kgs

import (
	"context"
	"maps"
	"sync"
)

// Reach is how far the numbers of a ledger are known to have come.
type Reach struct {
	Range int64         // the highest range id that was seen
	Next  map[int]int64 // by code length, the number after the highest that was seen
}

// reach is the Reach that one process remembers.
type reach struct {
	mu sync.Mutex
	Reach
}

// note extends what is remembered.
func (r *reach) note(seen Reach) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Range = max(r.Range, seen.Range)
	for length, next := range seen.Next {
		if r.Next == nil {
			r.Next = make(map[int]int64)
		}
		r.Next[length] = max(r.Next[length], next)
	}
}

// soFar is what is remembered.
func (r *reach) soFar() Reach {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Reach{Range: r.Range, Next: maps.Clone(r.Next)}
}

const (
	// jumpMargin is how many numbers a jump leaves out beyond all that anybody remembers,
	// or a jumpPart of the space where that is less.
	jumpMargin = 10_000_000
	jumpPart   = 100
	// jumpRanges is how many range ids it leaves out.
	jumpRanges = 1_000_000
)

// Remember notes how far somebody else, such as the shared pool, has seen this ledger
// come: should it turn out to be behind that, it jumps.
func (l *Ledger) Remember(seen Reach) { l.reached.note(seen) }

// OnJump has f told of every jump that this process makes, with how many numbers it left
// out. It is to be called before the ledger is used.
func (l *Ledger) OnJump(f func(left int64)) { l.onJump = f }

// keepUp jumps when this ledger's database came back from an older state: a standby that
// lagged behind was promoted, or a backup recovered. Its history has another name then;
// or, as after older files were put back, it has not come as far as it was seen to.
// That is found out under the lock, so before anything else is done to such a ledger
// by anybody who can know; see also advance.
func (p *posting) keepUp(ctx context.Context, kept, present string) error {
	behind := p.last < p.reached.soFar().Range
	if kept == present && !behind {
		return nil
	}
	if err := p.exec(ctx, `UPDATE kgs_ledger SET history = $1 WHERE id = 1`, present); err != nil {
		return err
	}
	if kept == "" && !behind {
		return nil // it had no name yet
	}
	return p.jump(ctx)
}

// jump leaves out every number that could have been handed out in the history that was
// lost: all that this process has seen, itself or in the shared pool, and a margin.
// What is open in the books may have been closed since: it is written off, and so is
// the shared pool, by a new epoch. All this is abandoned as [ReasonRollback].
//
// Numbers that were reserved and handed out beyond the margin by processes that have
// all died, without a pool that remembers, would be given out again: no ledger can
// know of them. Synchronous replication is the remedy.
func (p *posting) jump(ctx context.Context) error {
	seen := p.reached.soFar()
	err := p.exec(ctx, `UPDATE kgs_ranges SET state = 'abandoned', holder = '', origin = 0, lease = 0, reason = $1
		WHERE state <> 'abandoned'`, ReasonRollback)
	if err != nil {
		return err
	}
	if err := p.exec(ctx, `UPDATE kgs_leases SET state = 'expired' WHERE state = 'open'`); err != nil {
		return err
	}
	p.last = max(p.last, seen.Range) + jumpRanges
	spaces, err := collect(ctx, p.Tx, scanSpace, selectSpaces)
	if err != nil {
		return err
	}
	rest := int64(0) // of the margin, for the next length
	for _, s := range spaces {
		if s.Next == 0 && seen.Next[s.Length] == 0 && rest == 0 {
			continue // nobody was there yet
		}
		margin := max(rest, min(jumpMargin, s.Size/jumpPart))
		from := max(s.Next, seen.Next[s.Length])
		to := min(from+margin, s.Size)
		rest = from + margin - to
		if err := p.leaveOut(ctx, Run{Length: s.Length, Lo: s.Next, Hi: to}); err != nil {
			return err
		}
	}
	if p.epoch == 0 {
		return nil // there never was a shared pool
	}
	return p.openEpoch(ctx, p.epoch+1, "")
}

// leaveOut advances a counter to the end of run and abandons the numbers of run.
func (p *posting) leaveOut(ctx context.Context, run Run) error {
	if run.Len() == 0 {
		return nil
	}
	p.left += run.Len()
	if err := p.exec(ctx, `UPDATE kgs_spaces SET next = $1 WHERE length = $2`, run.Hi, run.Length); err != nil {
		return err
	}
	return p.abandon(ctx, run, ReasonRollback)
}
