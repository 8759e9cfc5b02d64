package ledger

import (
	"context"
	"fmt"
)

// Epoch is the life of one shared pool.
type Epoch struct {
	Number int64  // from 1; 0 while there never was a pool
	Pool   string // identity of the pool that it was opened on
}

// Epoch reads the current epoch, without waiting for a change under way.
func (l *Ledger) Epoch(ctx context.Context) (e Epoch, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT epoch, pool FROM kgs_ledger WHERE id = 1`).Scan(&e.Number, &e.Pool)
	if err != nil {
		return Epoch{}, fmt.Errorf("ledger: epoch: %w", err)
	}
	return e, nil
}

// OpenEpoch begins the epoch that follows the epoch after, for a pool with the given
// identity, and gives its number. When that was done already, by another worker or
// by a try whose answer was lost, it changes nothing and gives the current one; opened
// tells whether it was this very call.
//
// It writes off what the pool of the old epoch held, and what was on its way there:
// the counters at this moment are kept as a boundary, and every number below it that
// is found nowhere else is lost with the old epoch. If the caller crashes after
// it, the pool never hears of the epoch, and the next worker begins another.
//
// An epoch after that the ledger does not know of shows that the ledger is older than it
// was, and skips ahead.
func (l *Ledger) OpenEpoch(ctx context.Context, after int64, pool string) (number int64, opened bool, err error) {
	err = l.update(ctx, "open epoch", func(ctx context.Context, t *tx) error {
		number, opened = t.epoch, t.epoch <= after
		if !opened {
			return nil
		}
		if t.epoch < after && t.skipped == 0 { // it may just have jumped already
			if err := t.skipAhead(ctx); err != nil {
				return err
			}
		}
		number = max(after, t.epoch) + 1
		return t.openEpoch(ctx, number, pool)
	})
	return number, opened && err == nil, err
}

func (t *tx) openEpoch(ctx context.Context, number int64, pool string) error {
	if err := t.exec(ctx, `UPDATE kgs_ledger SET epoch = $1, pool = $2 WHERE id = 1`, number, pool); err != nil {
		return err
	}
	err := t.exec(ctx, `INSERT INTO kgs_epochs (epoch, length, next, pool)
		SELECT CAST($1 AS bigint), length, next, CAST($2 AS text) FROM kgs_spaces`, number, pool)
	if err != nil {
		return err
	}
	t.epoch = number
	return t.exec(ctx, `DELETE FROM kgs_ranges WHERE state = 'shipping'`)
}
