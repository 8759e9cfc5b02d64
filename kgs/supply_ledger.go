package kgs

import (
	"context"
	"fmt"
)

// LedgerSupply takes batches straight from the ledger, with no pool in between. An
// answer that is lost leaves a batch that nobody knows of; it is given up when the
// process has ended.
type LedgerSupply struct {
	books  ledgerBooks
	length int
}

var _ Supply = (*LedgerSupply)(nil)

// NewLedgerSupply makes a supply of codes of at least the given length. The caller
// renews and releases holder.
func NewLedgerSupply(ledger *Ledger, space *Space, holder string, length int) *LedgerSupply {
	return &LedgerSupply{books: ledgerBooks{ledger, space, holder, SourceLedger}, length: length}
}

// Take reserves n numbers. It fails with ErrExhausted when none are left.
func (s *LedgerSupply) Take(ctx context.Context, n int) (*Batch, error) {
	r, err := s.books.ledger.Reserve(ctx, s.books.holder, RangeBatch, s.length, int64(n))
	if err != nil {
		return nil, err
	}
	return s.books.batch(r), nil
}

// Settle books what became of the keys of b.
func (s *LedgerSupply) Settle(ctx context.Context, b *Batch, unused, lost []string) error {
	return s.books.settle(ctx, b, unused, lost)
}

// ledgerBooks keeps a supply's batches in the ledger, as ranges of its holder.
type ledgerBooks struct {
	ledger *Ledger
	space  *Space
	holder string
	source string // the label of the batches
}

func (b ledgerBooks) batch(r Range) *Batch {
	return &Batch{ID: r.ID, Source: b.source, Codes: b.space.Codes(r.Run)}
}

func (b ledgerBooks) settle(ctx context.Context, batch *Batch, unused, lost []string) error {
	back, err := b.space.Runs(unused)
	if err != nil {
		return fmt.Errorf("settle the unused keys: %w", err)
	}
	gone, err := b.space.Runs(lost)
	if err != nil {
		return fmt.Errorf("settle the lost keys: %w", err)
	}
	return b.ledger.Settle(ctx, b.holder, batch.ID, back, gone)
}
