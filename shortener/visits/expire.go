package visits

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"keypool/internal/upkeep"
)

const (
	expireInterval = 10 * time.Minute
	expirePart     = 1000 // maximum number of rows that one transaction removes
	expireTimeout  = 5 * time.Second
	// writerMemory is the time after which Expire removes the row of an idle writer. If the writer sends a part after
	// the removal, the writer gets ErrForgotten.
	writerMemory = 24 * time.Hour
)

// Expire removes old rows at once and then every ten minutes, until ctx ends. Each run makes three removals: the counts
// by hour that are older than keep, the counts by facet that are older than keep, and the rows of idle writers (see
// writerMemory). The totals of the links do not change. If a removal fails, the run ends, and the next run tries again.
// After each run, Expire passes one result to note. Several processes may call Expire at the same time.
func (s Store) Expire(ctx context.Context, keep time.Duration, note func(error)) error {
	return upkeep.Repeat(ctx, expireInterval, func(ctx context.Context) error { return s.expireEarlier(ctx, time.Now(), keep) }, note)
}

// expireEarlier is like expire, but uses the time of the database if that time is before now. So a process whose clock is
// ahead does not remove the counts of all processes too early.
func (s Store) expireEarlier(ctx context.Context, now time.Time, keep time.Duration) error {
	now, err := s.earlier(ctx, now)
	if err != nil {
		return err
	}
	return s.expire(ctx, now, keep)
}

// earlier returns the time of the database or t, whichever is earlier. If the database has no clock of its own, earlier returns t.
func (s Store) earlier(ctx context.Context, t time.Time) (time.Time, error) {
	if s.engine.clock == "" {
		return t, nil
	}
	ctx, cancel := context.WithTimeout(ctx, expireTimeout)
	defer cancel()
	var now time.Time
	if err := s.read.QueryRowContext(ctx, s.engine.clock).Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("read the clock of the database: %w", err)
	}
	if now.Before(t) {
		return now, nil
	}
	return t, nil
}

func (s Store) expire(ctx context.Context, now time.Time, keep time.Duration) error {
	before := hourOf(now.Add(-keep))
	removals := []func(*sql.Tx) (int, error){
		func(tx *sql.Tx) (int, error) { return s.foldHours(ctx, tx, before) },
		func(tx *sql.Tx) (int, error) {
			return remove(ctx, tx, `DELETE FROM visit_facets WHERE (code, facet, day, value) IN
				(SELECT code, facet, day, value FROM visit_facets WHERE day < $1 ORDER BY day LIMIT $2)`, before/hoursPerDay)
		},
		func(tx *sql.Tx) (int, error) {
			return remove(ctx, tx, `DELETE FROM visit_writers WHERE id IN (SELECT id FROM visit_writers WHERE used_at < $1 LIMIT $2)`,
				now.Add(-writerMemory).Unix())
		},
	}
	for _, removal := range removals {
		if err := s.removeAll(ctx, removal); err != nil {
			return fmt.Errorf("remove old counts of visits: %w", err)
		}
	}
	return nil
}

// removeAll repeats a removal, each time in a new transaction, until it removes fewer than expirePart rows.
func (s Store) removeAll(ctx context.Context, removal func(*sql.Tx) (int, error)) error {
	return upkeep.InParts(ctx, expirePart, expireTimeout, func(ctx context.Context) (n int, err error) {
		err = s.transact(ctx, func(tx *sql.Tx) (err error) {
			if err = s.exclude(ctx, tx); err == nil {
				n, err = removal(tx)
			}
			return err
		})
		return n, err
	})
}

// foldHours removes up to expirePart rows of hours before the given hour, and adds their counts to the rows that count
// visits without an hour (see past).
func (s Store) foldHours(ctx context.Context, tx *sql.Tx, before int64) (n int, err error) {
	folded := make(map[string]Row)
	var r Row
	err = forEach(ctx, tx, `DELETE FROM visits WHERE (code, hour) IN
		(SELECT code, hour FROM visits WHERE hour > 0 AND hour < $1 ORDER BY hour LIMIT $2) RETURNING code, owner, human, bot`,
		[]any{before, expirePart}, []any{&r.Code, &r.Owner, &r.Human, &r.Bot}, func() {
			n++
			sum := folded[r.Code]
			sum.Code, sum.Owner = r.Code, r.Owner
			sum.Add(r.Count)
			folded[r.Code] = sum
		})
	if err != nil || n == 0 {
		return 0, err
	}
	rows := make([]Row, 0, len(folded))
	for _, row := range folded {
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Code, b.Code) })
	return n, s.addRows(ctx, tx, rows)
}

// remove executes a statement that deletes up to $2 rows older than $1.
func remove(ctx context.Context, tx *sql.Tx, statement string, before int64) (int, error) {
	result, err := tx.ExecContext(ctx, statement, before, expirePart)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}
