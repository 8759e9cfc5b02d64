package kgs

import (
	"context"
	"database/sql"
)

// What tests outside of the package look at.
const (
	SkipPart     = jumpPart
	LeaseMemory  = leaseMemory
	LeaseRanges  = leaseRuns
	ExpireAtOnce = expireAtOnce
	ExpireRanges = expireRuns
)

// Tx is one change of the ledger.
type Tx = posting

// Update runs f as one change of the ledger.
func (l *Ledger) Update(ctx context.Context, op string, f func(context.Context, *Tx) error) error {
	return l.post(ctx, op, f)
}

// ViewRows runs f between two reads of all rows in one transaction, and returns both results.
func (l *Ledger) ViewRows(ctx context.Context, f func()) (before, after []BookedRange, err error) {
	err = l.look(ctx, "test", func(tx *sql.Tx) error {
		if before, err = collect(ctx, tx, scanBooked, selectBooked); err != nil {
			return err
		}
		f()
		after, err = collect(ctx, tx, scanBooked, selectBooked)
		return err
	})
	return before, after, err
}

// ForgetHighWaterMark makes the process forget the numbers that it has seen.
func (l *Ledger) ForgetHighWaterMark() {
	l.reached.mu.Lock()
	defer l.reached.mu.Unlock()
	l.reached.Reach = Reach{}
}

// ForgetNumbers makes the process forget the numbers that it has seen, but not the ids.
func (l *Ledger) ForgetNumbers() {
	l.reached.mu.Lock()
	defer l.reached.mu.Unlock()
	l.reached.Next = nil
}

// InsertReserved adds a reserved row.
func (p *posting) InsertReserved(ctx context.Context, run Run, holder string) error {
	_, err := p.insert(ctx, run, RangeReserved, holder, "")
	return err
}

// LendStep is the change that Lend makes.
func (p *posting) LendStep(ctx context.Context, r LeaseRequest) error {
	_, err := p.lend(ctx, r)
	return err
}

// GatherStep is the part of Lend that takes numbers.
func (p *posting) GatherStep(ctx context.Context, length int, n int64) error {
	_, err := p.gather(ctx, length, n)
	return err
}

// ExpireStep is one change of ExpireLeases.
func (p *posting) ExpireStep(ctx context.Context) (kept int64, err error) { return p.expireLeases(ctx) }
