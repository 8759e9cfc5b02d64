package ledger

import (
	"context"
	"database/sql"
	"math"
	"time"

	"keypool/kgs/codespace"
)

// These names are exported for the tests in package ledger_test.
const (
	DeadAfter    = deadAfter
	SkipMargin   = skipMargin
	SkipPart     = skipPart
	LeaseMemory  = leaseMemory
	LeaseRanges  = leaseRanges
	MaxReserved  = maxReserved
	ExpireAtOnce = expireAtOnce
	ExpireRanges = expireRanges
)

// Update runs f in one transaction of a change of the ledger.
func (l *Ledger) Update(ctx context.Context, op string, f func(context.Context, *Tx) error) error {
	return l.update(ctx, op, f)
}

// ViewRows runs f between two reads of all rows in one transaction, and returns both results.
func (l *Ledger) ViewRows(ctx context.Context, f func()) (before, after []Row, err error) {
	err = l.view(ctx, "test", func(tx *sql.Tx) error {
		if before, err = collect(ctx, tx, scanRow, selectRows); err != nil {
			return err
		}
		f()
		after, err = collect(ctx, tx, scanRow, selectRows)
		return err
	})
	return before, after, err
}

// AllowLook makes the next Sweep a look (see [Ledger.Sweep]), even directly after another look.
func (l *Ledger) AllowLook() {
	l.heartbeats.mu.Lock()
	defer l.heartbeats.mu.Unlock()
	l.heartbeats.at = time.Time{}
}

// ForgetHeartbeats deletes the heartbeats that the Sweep calls of this process have read.
func (l *Ledger) ForgetHeartbeats() {
	l.heartbeats.mu.Lock()
	defer l.heartbeats.mu.Unlock()
	l.heartbeats.seen = nil
}

// ForgetHighWaterMark deletes the high-water mark that this process remembers.
func (l *Ledger) ForgetHighWaterMark() {
	l.highWater.forget()
}

// ForgetNumbers deletes the numbers of the high-water mark, but not its id.
func (l *Ledger) ForgetNumbers() {
	l.highWater.mu.Lock()
	defer l.highWater.mu.Unlock()
	l.highWater.Next = nil
}

// SkipLeast makes each skip-ahead skip as few numbers as it may skip.
func (l *Ledger) SkipLeast() { l.random = func(int64) int64 { return 0 } }

// WriteWitness writes the witness. A change that assigns a new id does the same after its
// commit.
func (l *Ledger) WriteWitness(ctx context.Context) { l.keepWitness(ctx, math.MaxInt64, true) }

// InsertReserved adds a reserved row.
func (t *tx) InsertReserved(ctx context.Context, numbers codespace.Range, holder string) error {
	_, err := t.insert(ctx, numbers, StateReserved, holder, "")
	return err
}

// LendStep runs the part of Lend that is inside the transaction.
func (t *tx) LendStep(ctx context.Context, r LeaseRequest) error {
	_, err := t.lend(ctx, r)
	return err
}

// GatherStep runs the part of Lend that takes numbers.
func (t *tx) GatherStep(ctx context.Context, length int, n int64) error {
	_, err := t.gather(ctx, length, n)
	return err
}

// ExpireStep runs the part of ExpireLeases that is inside one transaction.
func (t *tx) ExpireStep(ctx context.Context) (kept int64, err error) { return t.expireLeases(ctx) }

// Tx is one transaction of a change of the ledger.
type Tx = tx

// Kill releases the lock, as the kernel does when the process ends.
func (p *Presence) Kill(t interface{ Error(...any) }) {
	if err := p.file.Close(); err != nil {
		t.Error(err)
	}
}
