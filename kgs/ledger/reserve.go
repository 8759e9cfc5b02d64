package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

// Reservation is a range that has a row in the ledger. The id of each new reservation is higher than all earlier ids.
// Numbers of a reservation get a new id when Cut makes them a batch, and when Reserve or Lend takes them from a
// reserved range without a live holder.
type Reservation struct {
	codespace.Range
	ID    int64
	Epoch int64 // epoch in which the range was reserved
}

// State is the state of a range in the ledger.
type State string

// The states of a range. A range that is delivered or settled has no row.
const (
	StateReserved  State = "reserved"  // the range is for the pool in the memory of a process, or has no holder
	StateShipping  State = "shipping"  // the range is on its way to the shared pool of the current epoch
	StateBatch     State = "batch"     // the range is in the local batch of a server, or lent to a client
	StateAbandoned State = "abandoned" // the range is never handed out again
)

// Reserve reserves a range of 1 to n numbers for holder. The codes have at least the given
// length, and the range gets the given state. Reserve tries these steps in turn:
//
//   - First, if state is StateShipping, Reserve takes over a shipping range of the current epoch of
//     list 0. The range must have no live holder, or must belong to holder. A holder pushes one range at
//     a time, so it has such a range only if the answer of an earlier Reserve was lost. The range
//     keeps its id, because the pool records progress under that id. Reserve takes the whole
//     range, whatever n and length are, because a part of the range may be in the pool.
//   - Second, Reserve takes up to n numbers of a reserved range without a live holder. These numbers get a new id.
//     Reserve skips a range that has fewer than n/10 numbers. Otherwise, many short ranges would make a refill very
//     slow. Lend takes such ranges.
//   - Third, Reserve advances the counter of the shortest code length that has numbers left.
//   - Fourth, Reserve takes a reserved range that it skipped before. Because this step comes last, a short range of a
//     short code length may stay unused while the counter continues with longer codes.
//
// Reserve fails with ErrExhausted if no step finds numbers.
//
// If the caller crashes after Reserve, or the answer is lost, the range keeps its row with the
// name of holder. When Sweep declares holder dead, other holders can take over the range if it
// is reserved or shipping. If the range is a batch, Sweep abandons it.
func (l *Ledger) Reserve(ctx context.Context, holder string, state State, length int, n int64) (Reservation, error) {
	return l.List(0).Reserve(ctx, holder, state, length, n)
}

// Reserve is like [Ledger.Reserve], but its shipping ranges are on their way to l instead of list 0.
func (l *List) Reserve(ctx context.Context, holder string, state State, length int, n int64) (r Reservation, err error) {
	if holder == "" || n < 1 {
		return Reservation{}, fmt.Errorf("ledger: reserve: %d numbers for holder %q", n, holder)
	}
	err = l.update(ctx, "reserve", func(ctx context.Context, t *tx) error {
		if err := t.exec(ctx, t.dialect.renew, holder); err != nil {
			return err
		}
		if state == StateShipping {
			if err := t.selectList(ctx, l.number); err != nil {
				return err
			}
			if r, err = t.adoptShipping(ctx, holder); !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		numbers, err := t.take(ctx, length, n)
		if err != nil {
			return err
		}
		r, err = t.insert(ctx, numbers, state, holder, "")
		return err
	})
	if err == nil {
		l.highWater.raise(HighWaterMark{Next: map[int]int64{r.Length: r.Hi}})
	}
	return r, err
}

// Cut turns the first n numbers of r into a batch of holder. r is a reserved range of holder. The
// batch always gets a new id, even if it has all numbers of r. The new id raises the last id of the ledger.
// If a copy of the database from before the cut is restored, the ledger recognizes the copy by its lower last id.
// Cut also returns the rest of r, which is empty if r has at most n numbers. It fails with
// ErrFenced if another holder took over all or part of r while holder was frozen.
//
// The caller may repeat Cut after an error. If an earlier call made the batch, the repeated call
// returns the same batch and ignores n. If the caller crashes after Cut, Sweep later abandons
// the batch.
func (l *Ledger) Cut(ctx context.Context, holder string, r Reservation, n int64) (batch, rest Reservation, err error) {
	if n < 1 || r.Len() < 1 {
		return batch, rest, fmt.Errorf("ledger: cut: %d of %d numbers", n, r.Len())
	}
	err = l.update(ctx, "cut", func(ctx context.Context, t *tx) error {
		if err := t.exec(ctx, t.dialect.renew, holder); err != nil {
			return err
		}
		found, state, err := t.heldRow(ctx, holder, r)
		switch {
		case err != nil:
			return err
		case state == StateBatch: // an earlier call made this cut, and its answer was lost
			batch = found
			rest, err = t.restOf(ctx, holder, r, found.Hi)
		case found != r:
			return kgs.ErrFenced
		case n >= r.Len():
			batch = r
			batch.ID = t.nextID()
			err = t.exec(ctx, `UPDATE kgs_ranges SET id = $1, state = 'batch', origin = $2 WHERE id = $2`, batch.ID, r.ID)
		default:
			batch, rest, err = t.split(ctx, holder, r, n)
		}
		return err
	})
	return batch, rest, err
}

// Deliver removes the row of r, a shipping range whose codes are all in the pool. It returns the
// floor of the list that r was pushed to. The floor is a range id. No range with a lower id is on
// its way to the list, now or later, for three reasons:
//
//   - a range starts shipping only under a new id;
//   - ids become visible in the order in which they are assigned;
//   - a range never returns to the state shipping.
//
// Therefore the pool can refuse every push with an id below the floor, and can delete its
// progress records of such ranges. The refusal stops a worker that was frozen during a push.
//
// The caller may repeat Deliver. Another worker that took over r and pushed the rest may call
// Deliver too. If the caller crashes before Deliver, another worker takes over r and has no keys
// left to push.
func (l *Ledger) Deliver(ctx context.Context, r Reservation) (floor int64, err error) {
	err = l.update(ctx, "deliver", func(ctx context.Context, t *tx) error {
		if err := t.exec(ctx, `DELETE FROM kgs_ranges WHERE id = $1 AND state = 'shipping'`, r.ID); err != nil {
			return err
		}
		return t.QueryRowContext(ctx,
			`SELECT coalesce(min(id), $1) FROM kgs_ranges WHERE state = 'shipping' AND epoch = $2`, t.last+1, r.Epoch).Scan(&floor)
	})
	return floor, err
}

// adoptShipping takes over the oldest shipping range of the current epoch that has no live holder or
// belongs to holder. It fails with sql.ErrNoRows if there is no such range.
func (t *tx) adoptShipping(ctx context.Context, holder string) (r Reservation, err error) {
	err = t.QueryRowContext(ctx, `SELECT id, length, lo, hi, epoch FROM kgs_ranges
		WHERE state = 'shipping' AND epoch = $1 AND (holder = $2 OR `+orphan+`) ORDER BY id LIMIT 1`, t.epoch, holder).
		Scan(&r.ID, &r.Length, &r.Lo, &r.Hi, &r.Epoch)
	if err != nil {
		return Reservation{}, err
	}
	return r, t.exec(ctx, `UPDATE kgs_ranges SET holder = $1 WHERE id = $2`, holder, r.ID)
}

// take takes 1 to n numbers of one range for Reserve.
func (t *tx) take(ctx context.Context, length int, n int64) (codespace.Range, error) {
	const shortest = 10 // take prefers new numbers to a reserved range with fewer than n/shortest numbers
	ranges, err := t.adoptReserved(ctx, length, n, n/shortest, 1)
	if err != nil {
		return codespace.Range{}, err
	}
	if len(ranges) > 0 {
		return ranges[0], nil
	}
	numbers, exhausted := t.advance(ctx, length, n)
	if !errors.Is(exhausted, kgs.ErrExhausted) {
		return numbers, exhausted
	}
	ranges, err = t.adoptReserved(ctx, length, n, 1, 1)
	if err != nil || len(ranges) == 0 {
		return codespace.Range{}, cmp.Or(err, exhausted)
	}
	return ranges[0], nil
}

// adoptReserved takes up to n numbers from at most limit reserved ranges. It takes only from ranges without a live
// holder, with codes of at least the given length, and with at least as many numbers as the parameter least says. The
// caller inserts the taken numbers under new ids. If numbers of a range remain, their row has the old id and no holder.
// Therefore no row has both the old id and the name of the former holder. If the former holder was frozen and resumes,
// it can use no number of the range.
func (t *tx) adoptReserved(ctx context.Context, length int, n, least int64, limit int) (ranges []codespace.Range, err error) {
	found, err := collect(ctx, t.Tx, scanRow, selectRows+` WHERE state = 'reserved' AND length >= $1 AND hi - lo >= $2 AND `+orphan+`
		ORDER BY length, id LIMIT $3`, length, least, limit)
	if err != nil {
		return nil, err
	}
	for _, row := range found {
		if n == 0 {
			break
		}
		numbers := row.Range
		if numbers.Len() <= n {
			err = t.exec(ctx, `DELETE FROM kgs_ranges WHERE id = $1`, row.ID)
		} else {
			numbers.Hi = numbers.Lo + n
			err = t.exec(ctx, `UPDATE kgs_ranges SET lo = $1, holder = '' WHERE id = $2`, numbers.Hi, row.ID)
		}
		if err != nil {
			return nil, err
		}
		ranges, n = append(ranges, numbers), n-numbers.Len()
	}
	return ranges, nil
}

// advance takes new numbers of the shortest code length that has numbers left. A counter below
// the high-water mark of this process means that the database was rolled back. The ledger then
// skips ahead.
func (t *tx) advance(ctx context.Context, length int, n int64) (numbers codespace.Range, err error) {
	var size int64
	err = t.QueryRowContext(ctx, `SELECT length, next, size FROM kgs_spaces
		WHERE length >= $1 AND next < size ORDER BY length LIMIT 1`, length).
		Scan(&numbers.Length, &numbers.Lo, &size)
	if errors.Is(err, sql.ErrNoRows) {
		return codespace.Range{}, kgs.ErrExhausted
	}
	if err != nil {
		return codespace.Range{}, err
	}
	if numbers.Lo < t.highWater.mark().Next[numbers.Length] {
		if err := t.skipAhead(ctx); err != nil {
			return codespace.Range{}, err
		}
		return t.advance(ctx, length, n)
	}
	numbers.Hi = numbers.Lo + min(n, size-numbers.Lo)
	return numbers, t.exec(ctx, `UPDATE kgs_spaces SET next = $1 WHERE length = $2`, numbers.Hi, numbers.Length)
}

// heldRow returns the row of holder that begins where r begins. This is the row of r itself or of
// the batch that was cut from r. The comparison of ids excludes a range that holder lost and
// reserved again. heldRow fails with ErrFenced if there is no such row.
func (t *tx) heldRow(ctx context.Context, holder string, r Reservation) (found Reservation, state State, err error) {
	err = t.QueryRowContext(ctx, `SELECT id, length, lo, hi, epoch, state FROM kgs_ranges
		WHERE length = $1 AND lo = $2 AND holder = $3 AND (id = $4 OR origin = $4)`, r.Length, r.Lo, holder, r.ID).
		Scan(&found.ID, &found.Length, &found.Lo, &found.Hi, &found.Epoch, &state)
	if errors.Is(err, sql.ErrNoRows) {
		err = kgs.ErrFenced
	}
	return found, state, err
}

// restOf returns the rest of r after an earlier cut. The rest begins at the number lo. The result is empty if holder has
// no such rest.
func (t *tx) restOf(ctx context.Context, holder string, r Reservation, lo int64) (Reservation, error) {
	r.Lo = lo
	rest, _, err := t.heldRow(ctx, holder, r)
	if errors.Is(err, kgs.ErrFenced) {
		return Reservation{}, nil
	}
	return rest, err
}

func (t *tx) split(ctx context.Context, holder string, r Reservation, n int64) (batch, rest Reservation, err error) {
	rest, batch = r, r
	rest.Lo += n
	batch.Hi = rest.Lo
	if err := t.exec(ctx, `UPDATE kgs_ranges SET lo = $1 WHERE id = $2`, rest.Lo, r.ID); err != nil {
		return Reservation{}, Reservation{}, err
	}
	if batch, err = t.insert(ctx, batch.Range, StateBatch, holder, ""); err != nil {
		return Reservation{}, Reservation{}, err
	}
	return batch, rest, t.exec(ctx, `UPDATE kgs_ranges SET origin = $1 WHERE id = $2`, r.ID, batch.ID)
}

// orphan is an SQL condition for rows without a live holder.
const orphan = `holder NOT IN (SELECT holder FROM kgs_holders)`
