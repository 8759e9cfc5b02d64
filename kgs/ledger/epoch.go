package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"
)

// Epoch is one generation of one list of the shared pool. The epochs of all lists have distinct
// numbers.
type Epoch struct {
	Number int64 // starts at 1; 0 if the list has never had an epoch
	// Pool is the argument pool of the call of OpenEpoch that opened the epoch. It is empty if the ledger opened
	// the epoch itself.
	Pool string
}

// List gives access to the ledger for one list of the shared pool. A pool has one list or more, and
// each list has its own epochs and its own shipping ranges. The methods of Ledger with the same names
// use list 0.
type List struct {
	*Ledger
	number int
}

// List gives access to the ledger for the list with the given number. The lists are numbered from 0.
func (l *Ledger) List(number int) *List { return &List{l, number} }

// Epoch reads the current epoch of list 0; see [List.Epoch].
func (l *Ledger) Epoch(ctx context.Context) (Epoch, error) { return l.List(0).Epoch(ctx) }

// OpenEpoch opens an epoch of list 0; see [List.OpenEpoch].
func (l *Ledger) OpenEpoch(ctx context.Context, after int64, pool string) (number int64, opened bool, err error) {
	return l.List(0).OpenEpoch(ctx, after, pool)
}

// Epoch reads the current epoch of the list. It does not wait for a change in another transaction.
func (l *List) Epoch(ctx context.Context) (e Epoch, err error) {
	err = l.view(ctx, "epoch", func(tx *sql.Tx) error {
		e, err = epochOf(ctx, tx, l.number)
		return err
	})
	return e, err
}

func epochOf(ctx context.Context, tx *sql.Tx, list int) (e Epoch, err error) {
	found, err := collect(ctx, tx, func(rows *sql.Rows) (e Epoch, err error) {
		err = rows.Scan(&e.Number, &e.Pool)
		return e, err
	}, `SELECT epoch, pool FROM kgs_epochs WHERE list = $1 ORDER BY epoch DESC LIMIT 1`, list)
	if err == nil && len(found) > 0 {
		e = found[0]
	}
	return e, err
}

// RepeatedEpochs looks at the epochs of the list that workers opened within the given time before now. It ignores
// epochs that the ledger opened itself when it skipped ahead. The result n is how many of these epochs belong to a
// pool that has two or more of them. The result last is the age of the latest of these epochs, whatever its pool, by the
// clock of the database. If there are no such epochs, both results are 0.
func (l *List) RepeatedEpochs(ctx context.Context, within time.Duration) (n int, last time.Duration, err error) {
	var age sql.NullInt64
	err = l.read.QueryRowContext(ctx, `SELECT CAST(coalesce(sum(epochs) FILTER (WHERE epochs > 1), 0) AS bigint), min(age)
		FROM (SELECT count(DISTINCT epoch) AS epochs, min(`+l.dialect.now+` - `+l.dialect.opened+`) AS age FROM kgs_epochs
			WHERE `+l.dialect.opened+` > `+l.dialect.now+` - $1 AND list = $2 AND pool <> '' GROUP BY pool) AS pools`,
		within.Microseconds(), l.number).Scan(&n, &age)
	if err != nil {
		return 0, 0, fmt.Errorf("ledger: repeated epochs: %w", err)
	}
	return n, time.Duration(age.Int64) * time.Microsecond, nil
}

// Epochs reads the current epoch of every list that ever had an epoch.
func (l *Ledger) Epochs(ctx context.Context) (epochs map[int]int64, err error) {
	err = l.view(ctx, "epochs", func(tx *sql.Tx) error {
		b, err := collect(ctx, tx, scanBoundary, selectBoundaries)
		epochs = Snapshot{Boundaries: b}.Epochs()
		return err
	})
	return epochs, err
}

// OpenEpoch opens an epoch of the list. pool identifies the present data of the list, for example by the replication id
// of Redis. The number of the new epoch is greater than the parameter after, and greater than every epoch of the ledger.
// If the current epoch of the list is already greater than the parameter after, OpenEpoch changes nothing and returns
// the current epoch. In this case, another worker opened the epoch, or the answer of an earlier call was lost. opened
// reports whether this call opened the epoch.
//
// OpenEpoch abandons the keys in the list and the ranges on their way to the list. For each code length, it stores the
// present counter as the boundary of the epoch. An audit looks for each number below the boundary in the links, the
// batches, the ranges and the pool. If the number is in none of these places, the audit counts it as abandoned, because
// the pool of an earlier epoch may have had the number. If the caller crashes after OpenEpoch, the pool in Redis is not
// opened for the epoch, and the next worker opens another epoch.
//
// If the parameter after is greater than the current epoch of the list, the pool has an epoch that is missing in the
// ledger. This means that the database was rolled back, so the ledger skips ahead.
func (l *List) OpenEpoch(ctx context.Context, after int64, pool string) (number int64, opened bool, err error) {
	err = l.update(ctx, "open epoch", func(ctx context.Context, t *tx) error {
		if err := t.selectList(ctx, l.number); err != nil {
			return err
		}
		number, opened = t.epoch, t.epoch <= after
		if !opened {
			return nil
		}
		if t.epoch < after && t.rolledBack == 0 { // detectRollback may have skipped ahead already
			if err := t.skipAhead(ctx); err != nil {
				return err
			}
		}
		number = max(after, t.latest) + 1
		return t.openEpoch(ctx, l.number, number, pool)
	})
	return number, opened && err == nil, err
}

// selectList selects the list that a change concerns, and reads the epoch of the list.
func (t *tx) selectList(ctx context.Context, list int) error {
	e, err := epochOf(ctx, t.Tx, list)
	t.list, t.epoch = list, e.Number
	return err
}

func (t *tx) openEpoch(ctx context.Context, list int, number int64, pool string) error {
	if err := t.exec(ctx, `UPDATE kgs_ledger SET epoch = $1, pool = $2 WHERE id = 1`, number, pool); err != nil {
		return err
	}
	err := t.exec(ctx, `INSERT INTO kgs_epochs (epoch, length, next, pool, list)
		SELECT CAST($1 AS bigint), length, next, CAST($2 AS text), CAST($3 AS integer) FROM kgs_spaces`, number, pool, list)
	if err != nil {
		return err
	}
	if t.latest = number; list == t.list {
		t.epoch = number
	}
	// Delete the ranges that are on their way to this list. Keep a range whose epoch belongs to another list, because
	// that range is on its way to that list.
	return t.exec(ctx, `DELETE FROM kgs_ranges WHERE state = 'shipping' AND epoch NOT IN (SELECT epoch FROM kgs_epochs WHERE list <> $1)`, list)
}

// skipEpochs is the smallest count of epoch numbers that a skip-ahead skips. The skip-ahead adds a random count below
// skipEpochs. Epochs of the lost history (see skipAhead) may have had the skipped numbers. If the ledger used the number
// of a lost epoch again, a worker that still has a range of the lost epoch could push this range.
const skipEpochs = 1000

// openAll opens a new epoch of every list.
func (t *tx) openAll(ctx context.Context) error {
	lists, err := collect(ctx, t.Tx, func(rows *sql.Rows) (list int, err error) {
		err = rows.Scan(&list)
		return list, err
	}, `SELECT DISTINCT list FROM kgs_epochs ORDER BY list`)
	if err != nil {
		return err
	}
	next := t.latest
	if next > 0 {
		if !slices.Contains(lists, 0) {
			lists = append(lists, 0)
		}
		next += skipEpochs + t.random(skipEpochs)
	}
	for _, list := range lists {
		next++
		if err := t.openEpoch(ctx, list, next, ""); err != nil {
			return fmt.Errorf("open an epoch of list %d: %w", list, err)
		}
	}
	return nil
}
