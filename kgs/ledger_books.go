package kgs

import (
	"context"
	"database/sql"
	"fmt"
)

// SpaceBook is how far the space of one code length is walked.
type SpaceBook struct {
	Length     int
	Size, Next int64 // Next is the first number that was never reserved
}

// UsedRatio is the part of the space that is reserved, from 0 to 1.
func (s SpaceBook) UsedRatio() float64 { return float64(s.Next) / float64(s.Size) }

// Boundary is what the counter of one length stood at when an epoch was opened.
type Boundary struct {
	Epoch
	Length int
	Next   int64
}

// BookedRange is a range that the ledger has a row for.
type BookedRange struct {
	Range
	State  RangeState
	Holder string // empty for nobody
	Reason string // of an abandoned one
}

// Books is everything that the ledger knows, at one moment.
type Books struct {
	Epoch      Epoch
	Spaces     []SpaceBook // by length
	Boundaries []Boundary  // by epoch and length
	Ranges     []BookedRange
}

// Counters is the sums of the books that are cheap to read.
type Counters struct {
	Spaces []SpaceBook // by length
}

// Reserved is how many numbers were ever reserved, over all lengths.
func (c Counters) Reserved() (n int64) {
	for _, s := range c.Spaces {
		n += s.Next
	}
	return n
}

// Current is the space that codes of at least the given length come from: the
// first that has numbers left, or else the last.
func (c Counters) Current(length int) (current SpaceBook) {
	for _, s := range c.Spaces {
		if s.Length < length {
			continue
		}
		if current = s; s.Next < s.Size {
			break
		}
	}
	return current
}

// Books reads one consistent state of the ledger without holding up its writers.
func (l *Ledger) Books(ctx context.Context) (b Books, err error) {
	err = l.look(ctx, "books", func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `SELECT epoch, pool FROM kgs_ledger WHERE id = 1`).
			Scan(&b.Epoch.Number, &b.Epoch.Pool)
		if err != nil {
			return err
		}
		if b.Spaces, err = collect(ctx, tx, scanSpace, selectSpaces); err != nil {
			return err
		}
		b.Boundaries, err = collect(ctx, tx, scanBoundary,
			`SELECT epoch, pool, length, next FROM kgs_epochs ORDER BY epoch, length`)
		if err != nil {
			return err
		}
		b.Ranges, err = collect(ctx, tx, scanBooked, selectBooked+` ORDER BY length, lo`)
		return err
	})
	return b, err
}

// Counters reads the counters without holding up writers.
func (l *Ledger) Counters(ctx context.Context) (c Counters, err error) {
	err = l.look(ctx, "counters", func(tx *sql.Tx) error {
		c.Spaces, err = collect(ctx, tx, scanSpace, selectSpaces)
		return err
	})
	for _, s := range c.Spaces {
		l.reached.note(Reach{Next: map[int]int64{s.Length: s.Next}})
	}
	return c, err
}

// look runs f in a transaction that sees one state throughout and cannot write.
func (l *Ledger) look(ctx context.Context, op string, f func(*sql.Tx) error) error {
	tx, err := l.read.BeginTx(ctx, &l.dialect.snapshot)
	if err != nil {
		return fmt.Errorf("ledger: %s: %w", op, err)
	}
	defer func() { _ = tx.Rollback() }() // there is nothing to commit, nor to lose
	if err := f(tx); err != nil {
		return fmt.Errorf("ledger: %s: %w", op, err)
	}
	return nil
}

// collect reads all rows of a query.
func collect[T any](ctx context.Context, tx *sql.Tx, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err has told it
	var all []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

const (
	selectSpaces = `SELECT length, size, next FROM kgs_spaces ORDER BY length`
	selectBooked = `SELECT id, length, lo, hi, epoch, state, holder, reason FROM kgs_ranges`
)

func scanSpace(rows *sql.Rows) (s SpaceBook, err error) {
	err = rows.Scan(&s.Length, &s.Size, &s.Next)
	return s, err
}

func scanBoundary(rows *sql.Rows) (b Boundary, err error) {
	err = rows.Scan(&b.Number, &b.Pool, &b.Length, &b.Next)
	return b, err
}

func scanBooked(rows *sql.Rows) (r BookedRange, err error) {
	err = rows.Scan(&r.ID, &r.Length, &r.Lo, &r.Hi, &r.Epoch, &r.State, &r.Holder, &r.Reason)
	return r, err
}

func scanRun(rows *sql.Rows) (r Run, err error) {
	err = rows.Scan(&r.Length, &r.Lo, &r.Hi)
	return r, err
}
