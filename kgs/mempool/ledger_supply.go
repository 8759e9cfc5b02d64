package mempool

import (
	"context"
	"fmt"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
)

// LedgerSupply takes batches straight from the ledger, with no pool in between. An
// answer that is lost leaves a batch that nobody knows of; it is given up when the
// process has ended.
type LedgerSupply struct {
	batches ledgerBatches
	length  int
}

var _ kgs.Supply = (*LedgerSupply)(nil)

// NewLedgerSupply makes a supply of codes of at least the given length. The caller
// renews and releases holder.
func NewLedgerSupply(ledger *ledger.Ledger, space *codespace.Space, holder string, length int) *LedgerSupply {
	return &LedgerSupply{batches: ledgerBatches{ledger, space, holder, kgs.SourceLedger}, length: length}
}

// Take reserves n numbers. It fails with ErrExhausted when none are left.
func (s *LedgerSupply) Take(ctx context.Context, n int) (*kgs.Batch, error) {
	r, err := s.batches.ledger.Reserve(ctx, s.batches.holder, ledger.StateBatch, s.length, int64(n))
	if err != nil {
		return nil, err
	}
	return s.batches.batch(r), nil
}

// Settle records what happened to the keys of b.
func (s *LedgerSupply) Settle(ctx context.Context, b *kgs.Batch, unused, lost []string) error {
	return s.batches.settle(ctx, b, unused, lost)
}

// ledgerBatches records a supply's batches in the ledger, as ranges of its holder.
type ledgerBatches struct {
	ledger *ledger.Ledger
	space  *codespace.Space
	holder string
	source string // the label of the batches
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
