package ledger

import (
	"context"
	"database/sql"

	"keypool/kgs/codespace"
)

// SpaceCounter is how far the space of one code length is walked.
type SpaceCounter struct {
	Length     int
	Size, Next int64 // Next is the first number that was never reserved
}

// UsedRatio is the part of the space that is reserved, from 0 to 1.
func (s SpaceCounter) UsedRatio() float64 { return float64(s.Next) / float64(s.Size) }

// Boundary is what the counter of one length stood at when an epoch was opened.
type Boundary struct {
	Epoch
	Length int
	Next   int64
}

// Row is a range that the ledger has a row for.
type Row struct {
	Reservation
	State  State
	Holder string // empty for nobody
	Reason string // of an abandoned one
}

// Snapshot is everything that the ledger knows, at one moment.
type Snapshot struct {
	Epoch      Epoch
	Spaces     []SpaceCounter // by length
	Boundaries []Boundary     // by epoch and length
	Rows       []Row
}

// Counters is the part of a snapshot that is cheap to read.
type Counters struct {
	Spaces []SpaceCounter // by length
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
func (c Counters) Current(length int) (current SpaceCounter) {
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

// Snapshot reads one consistent state of the ledger without holding up its writers.
func (l *Ledger) Snapshot(ctx context.Context) (b Snapshot, err error) {
	err = l.view(ctx, "snapshot", func(tx *sql.Tx) error {
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
		b.Rows, err = collect(ctx, tx, scanRow, selectRows+` ORDER BY length, lo`)
		return err
	})
	return b, err
}

// Counters reads the counters without holding up writers.
func (l *Ledger) Counters(ctx context.Context) (c Counters, err error) {
	err = l.view(ctx, "counters", func(tx *sql.Tx) error {
		c.Spaces, err = collect(ctx, tx, scanSpace, selectSpaces)
		return err
	})
	for _, s := range c.Spaces {
		l.highWater.raise(HighWaterMark{Next: map[int]int64{s.Length: s.Next}})
	}
	return c, err
}

const (
	selectSpaces = `SELECT length, size, next FROM kgs_spaces ORDER BY length`
	selectRows   = `SELECT id, length, lo, hi, epoch, state, holder, reason FROM kgs_ranges`
)

func scanSpace(rows *sql.Rows) (s SpaceCounter, err error) {
	err = rows.Scan(&s.Length, &s.Size, &s.Next)
	return s, err
}

func scanBoundary(rows *sql.Rows) (b Boundary, err error) {
	err = rows.Scan(&b.Number, &b.Pool, &b.Length, &b.Next)
	return b, err
}

func scanRow(rows *sql.Rows) (r Row, err error) {
	err = rows.Scan(&r.ID, &r.Length, &r.Lo, &r.Hi, &r.Epoch, &r.State, &r.Holder, &r.Reason)
	return r, err
}

func scanRange(rows *sql.Rows) (r codespace.Range, err error) {
	err = rows.Scan(&r.Length, &r.Lo, &r.Hi)
	return r, err
}
