package mempool

import (
	"context"
	"fmt"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
)

// LedgerSupply is a [kgs.Supply] without a pool. It reserves each batch directly in the ledger.
// Methods may be called concurrently. They return when ctx ends; on SQLite, they may return later,
// as [ledger.Ledger] documents.
//
// If the answer to a Take is lost, the ledger has a batch that this process never received. The
// ledger abandons that batch after the process has ended.
type LedgerSupply struct {
	batches ledgerBatches
	length  int
}

var _ kgs.Supply = (*LedgerSupply)(nil)

// NewLedgerSupply returns a supply of codes that have at least length characters. Its batches
// belong to holder. The caller renews and releases holder.
func NewLedgerSupply(ledger *ledger.Ledger, space *codespace.Space, holder string, length int) *LedgerSupply {
	return &LedgerSupply{batches: ledgerBatches{ledger, space, holder, kgs.SourceLedger}, length: length}
}

// Take reserves up to n numbers and returns their codes as a batch. It fails with
// [kgs.ErrExhausted] when no number is left.
func (s *LedgerSupply) Take(ctx context.Context, n int) (*kgs.Batch, error) {
	r, err := s.batches.ledger.Reserve(ctx, s.batches.holder, ledger.StateBatch, s.length, int64(n))
	if err != nil {
		return nil, err
	}
	return s.batches.batch(r), nil
}

// Settle records in the ledger what happened to the keys of b. The caller may repeat Settle.
func (s *LedgerSupply) Settle(ctx context.Context, b *kgs.Batch, unused, lost []string) error {
	return s.batches.settle(ctx, b, unused, lost)
}

// ledgerBatches makes batches from the ranges of its holder, and settles them in the ledger.
type ledgerBatches struct {
	ledger *ledger.Ledger
	space  *codespace.Space
	holder string
	source string // value of Batch.Source for the batches
}

func (b ledgerBatches) batch(r ledger.Reservation) *kgs.Batch {
	return &kgs.Batch{ID: r.ID, Source: b.source, Codes: b.space.Codes(r.Range)}
}

func (b ledgerBatches) settle(ctx context.Context, batch *kgs.Batch, unused, lost []string) error {
	back, err := b.space.Ranges(unused)
	if err != nil {
		return fmt.Errorf("settle the unused keys: %w", err)
	}
	gone, err := b.space.Ranges(lost)
	if err != nil {
		return fmt.Errorf("settle the lost keys: %w", err)
	}
	return b.ledger.Settle(ctx, b.holder, batch.ID, back, gone)
}
