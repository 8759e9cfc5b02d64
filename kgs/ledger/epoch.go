package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Epoch is one generation of the shared pool.
type Epoch struct {
	Number int64  // starts at 1; 0 if the ledger has never had a shared pool
	Pool   string // identity of the pool that the epoch was opened for
}

// Epoch reads the current epoch. It does not wait for a change in another transaction.
func (l *Ledger) Epoch(ctx context.Context) (e Epoch, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT epoch, pool FROM kgs_ledger WHERE id = 1`).Scan(&e.Number, &e.Pool)
	if err != nil {
		return Epoch{}, fmt.Errorf("ledger: epoch: %w", err)
	}
	return e, nil
}

// RecentEpochs returns how many epochs were opened within the given time, and how long ago the last of them was opened, by the clock of
// the database.
func (l *Ledger) RecentEpochs(ctx context.Context, within time.Duration) (n int, last time.Duration, err error) {
	var age sql.NullInt64
	err = l.read.QueryRowContext(ctx, `SELECT count(DISTINCT epoch), min(`+l.dialect.now+` - `+l.dialect.opened+`) FROM kgs_epochs
		WHERE `+l.dialect.opened+` > `+l.dialect.now+` - $1`, within.Microseconds()).Scan(&n, &age)
	if err != nil {
		return 0, 0, fmt.Errorf("ledger: recent epochs: %w", err)
	}
	return n, time.Duration(age.Int64) * time.Microsecond, nil
}

// OpenEpoch opens epoch after+1 for the pool with the given identity, and returns the number of
// the epoch. If the ledger's epoch is already greater than after, OpenEpoch changes nothing and
// returns the ledger's epoch. In this case, another worker opened the epoch or the answer of an earlier
// call was lost. opened reports whether this call opened the epoch.
//
// OpenEpoch abandons the keys in the old pool and the ranges on their way to it. It stores the
// present counters as a boundary. If a number below the boundary is in no place, an audit
// counts it as abandoned with its epoch. If the caller crashes after OpenEpoch, the pool does not
// receive the epoch, and the next worker opens another epoch.
//
// If after is greater than the ledger's epoch, the database was rolled back, and the ledger
// skips ahead.
func (l *Ledger) OpenEpoch(ctx context.Context, after int64, pool string) (number int64, opened bool, err error) {
	err = l.update(ctx, "open epoch", func(ctx context.Context, t *tx) error {
		number, opened = t.epoch, t.epoch <= after
		if !opened {
			return nil
		}
		if t.epoch < after && t.skipped == 0 { // detectRollback may have skipped ahead already
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
