package ledger

import (
	"context"
	"database/sql"

	"keypool/kgs/codespace"
)

// SpaceCounter is the counter of one code length.
type SpaceCounter struct {
	Length     int
	Size, Next int64 // Size is the number of codes; Next is the lowest number that was never reserved
}

// UsedRatio returns the fraction of the numbers of this length that are reserved, from 0 to 1.
func (s SpaceCounter) UsedRatio() float64 { return float64(s.Next) / float64(s.Size) }

// Boundary is the value that the counter of one code length had when an epoch was opened.
type Boundary struct {
	Epoch
	List   int // number of the list to which the epoch belongs
	Length int
	Next   int64
}

// Row is the row of a range in the ledger.
type Row struct {
	Reservation
	State  State
	Holder string // holder of the range; empty if there is none
	Reason string // reason of an abandoned range; empty for other ranges
}

// Snapshot holds all counters, boundaries and rows of the ledger at one moment.
type Snapshot struct {
	Epoch      Epoch          // the newest epoch of all lists
	Spaces     []SpaceCounter // counters in order of length
	Boundaries []Boundary     // boundaries in order of epoch and length
	Rows       []Row
}

// Epochs returns the current epoch of every list that ever had an epoch.
func (b Snapshot) Epochs() map[int]int64 {
	epochs := make(map[int]int64)
	for _, at := range b.Boundaries {
		epochs[at.List] = max(epochs[at.List], at.Number)
	}
	return epochs
}

// Counters holds the counters of the ledger and totals of its ranges. Reading Counters takes less time than reading a
// Snapshot.
type Counters struct {
	Spaces []SpaceCounter // counters in order of length
	// Held is how many numbers of each code length are in reserved and shipping ranges, and in batches that
	// are not leases.
	Held   map[int]int64
	LastID int64 // last id of a reservation
}

// Reserved counts the numbers that were ever reserved, over all lengths.
func (c Counters) Reserved() (n int64) {
	for _, s := range c.Spaces {
		n += s.Next
	}
	return n
}

// Taken counts the numbers that are used, leased or abandoned, over all lengths. The keys of a batch count when the
// batch is settled or abandoned. The keys of a lease count at once. The keys in a pool in Redis count, because the
// ledger does not record when servers take them. The numbers that a skip-ahead skips or abandons count too, although
// most of them were never taken. The count decreases if a client returns keys, and after a rollback.
func (c Counters) Taken() (n int64) {
	for _, s := range c.Spaces {
		n += c.TakenOf(s)
	}
	return n
}

// TakenOf is like Taken, but for one length.
func (c Counters) TakenOf(s SpaceCounter) int64 { return s.Next - c.Held[s.Length] }

// Current returns the counter that gives the next code, if codes must have at least the given length. Of the lengths
// that have numbers left, the shortest length is used. If no length has numbers left, Current returns the counter of
// the greatest length.
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

// Snapshot reads one consistent state of the ledger. It does not block writers.
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
		b.Boundaries, err = collect(ctx, tx, scanBoundary, selectBoundaries)
		if err != nil {
			return err
		}
		b.Rows, err = collect(ctx, tx, scanRow, selectRows+` ORDER BY length, lo`)
		return err
	})
	return b, err
}

// Counters reads the counters. It does not block writers.
func (l *Ledger) Counters(ctx context.Context) (c Counters, err error) {
	err = l.view(ctx, "counters", func(tx *sql.Tx) error {
		if c.Spaces, err = collect(ctx, tx, scanSpace, selectSpaces); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(last_range), 0) FROM kgs_ledger`).Scan(&c.LastID); err != nil {
			return err
		}
		held, err := collect(ctx, tx, scanHeld, sumHeld)
		c.Held = make(map[int]int64, len(held))
		for _, of := range held {
			c.Held[of.length] = of.numbers
		}
		return err
	})
	for _, s := range c.Spaces {
		l.highWater.raise(HighWaterMark{Next: map[int]int64{s.Length: s.Next}})
	}
	return c, err
}

const (
	selectSpaces = `SELECT length, size, next FROM kgs_spaces ORDER BY length`
	sumHeld      = `SELECT length, CAST(sum(hi - lo) AS bigint) FROM kgs_ranges
		WHERE state IN ('reserved', 'shipping', 'batch') AND lease = 0 GROUP BY length`
	selectBoundaries = `SELECT epoch, pool, list, length, next FROM kgs_epochs ORDER BY epoch, length`
	selectRows       = `SELECT id, length, lo, hi, epoch, state, holder, reason FROM kgs_ranges`
)

func scanSpace(rows *sql.Rows) (s SpaceCounter, err error) {
	err = rows.Scan(&s.Length, &s.Size, &s.Next)
	return s, err
}

// held is the entry of Counters.Held for one code length.
type held struct {
	length  int
	numbers int64
}

func scanHeld(rows *sql.Rows) (h held, err error) {
	err = rows.Scan(&h.length, &h.numbers)
	return h, err
}

func scanBoundary(rows *sql.Rows) (b Boundary, err error) {
	err = rows.Scan(&b.Number, &b.Pool, &b.List, &b.Length, &b.Next)
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
