package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

// Reservation is a run that the ledger keeps a row for, under an id that never changes
// and that grows with every reservation.
type Reservation struct {
	codespace.Range
	ID    int64
	Epoch int64 // the epoch it was reserved in
}

// State is what a range of the ledger is there for.
type State string

// The states of a range. A range that is delivered or settled has no row any more.
const (
	StateReserved  State = "reserved"  // held back for a pool in a process, or for anyone
	StateShipping  State = "shipping"  // on its way to the shared pool of the current epoch
	StateBatch     State = "batch"     // in the local batch of a server, or lent to a client
	StateAbandoned State = "abandoned" // given up for good
)

// Reserve gives holder up to n numbers (at least one), for codes of at least the
// given length, as a range in the given state. Ranges that nobody works on any more
// go first, so that nothing is skipped:
//
//   - for StateShipping, a shipping range of the current epoch, whole and under its
//     old id, since the pool keeps its progress under that id, and whatever its
//     length, since part of it may be in the pool. It may be one of holder, who was
//     never told of it: a holder ships one range after the other;
//   - a reserved range, or its first n numbers, under a new id.
//
// Only then a counter is advanced, that of the shortest length with numbers left.
// ErrExhausted when there is none.
//
// If the caller crashes after it, or never learns of the outcome, the range waits
// under its name: reserved and shipping ones until they are taken over, once Sweep has
// declared it dead or, one that ships, by its next Reserve; a batch until Sweep gives it up.
func (l *Ledger) Reserve(ctx context.Context, holder string, state State, length int, n int64) (r Reservation, err error) {
	if holder == "" || n < 1 {
		return Reservation{}, fmt.Errorf("ledger: reserve: %d numbers for holder %q", n, holder)
	}
	err = l.update(ctx, "reserve", func(ctx context.Context, t *tx) error {
		if err := t.exec(ctx, t.dialect.renew, holder); err != nil {
			return err
		}
		if state == StateShipping {
			if r, err = t.adoptShipping(ctx, holder); !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		numbers, err := t.adoptReserved(ctx, length, n)
		if errors.Is(err, sql.ErrNoRows) {
			numbers, err = t.advance(ctx, length, n)
		}
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

// Cut turns the first n numbers of r, a reserved range of holder, into a batch of
// holder, and gives the rest, which is empty when n covers all of r. ErrFenced when
// r was taken over, all or in part, while holder was frozen.
//
// A repeat after an error gives the batch of the first try if that was made, with
// the n of then. If the caller crashes after it, the batch waits for Sweep.
func (l *Ledger) Cut(ctx context.Context, holder string, r Reservation, n int64) (batch, rest Reservation, err error) {
	if n < 1 || r.Len() < 1 {
		return batch, rest, fmt.Errorf("ledger: cut: %d of %d numbers", n, r.Len())
	}
	err = l.update(ctx, "cut", func(ctx context.Context, t *tx) error {
		if err := t.exec(ctx, t.dialect.renew, holder); err != nil {
			return err
		}
		found, state, err := t.held(ctx, holder, r)
		switch {
		case err != nil:
			return err
		case state == StateBatch: // this very cut was made before, and the answer lost
			batch = found
			rest, err = t.restOf(ctx, holder, r, found.Hi)
		case found != r:
			return kgs.ErrFenced
		case n >= r.Len():
			batch = r
			err = t.exec(ctx, `UPDATE kgs_ranges SET state = 'batch', origin = id WHERE id = $1`, r.ID)
		default:
			batch, rest, err = t.split(ctx, holder, r, n)
		}
		return err
	})
	return batch, rest, err
}

// adoptShipping takes over the oldest shipping range that lost its holder, or is holder's own.
func (t *tx) adoptShipping(ctx context.Context, holder string) (r Reservation, err error) {
	err = t.QueryRowContext(ctx, `SELECT id, length, lo, hi, epoch FROM kgs_ranges
		WHERE state = 'shipping' AND epoch = $1 AND (holder = $2 OR `+orphan+`) ORDER BY id LIMIT 1`, t.epoch, holder).
		Scan(&r.ID, &r.Length, &r.Lo, &r.Hi, &r.Epoch)
	if err != nil {
		return Reservation{}, err
	}
	return r, t.exec(ctx, `UPDATE kgs_ranges SET holder = $1 WHERE id = $2`, holder, r.ID)
}

// adoptReserved takes up to n numbers out of a reserved range that lost its holder.
// They get a new id, and what stays behind has no holder: a frozen process that
// comes back finds neither under the id and the name that it knows.
func (t *tx) adoptReserved(ctx context.Context, length int, n int64) (numbers codespace.Range, err error) {
	var id int64
	err = t.QueryRowContext(ctx, `SELECT id, length, lo, hi FROM kgs_ranges
		WHERE state = 'reserved' AND length >= $1 AND `+orphan+` ORDER BY length, id LIMIT 1`, length).
		Scan(&id, &numbers.Length, &numbers.Lo, &numbers.Hi)
	if err != nil {
		return codespace.Range{}, err
	}
	if numbers.Len() <= n {
		return numbers, t.exec(ctx, `DELETE FROM kgs_ranges WHERE id = $1`, id)
	}
	numbers.Hi = numbers.Lo + n
	return numbers, t.exec(ctx, `UPDATE kgs_ranges SET lo = $1, holder = '' WHERE id = $2`, numbers.Hi, id)
}

// advance walks on in the shortest space that has numbers left. A counter that was seen
// further on than it is now has gone back together with its database.
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

// held finds what holder has where r begins: r itself, or the batch that was cut
// from it. Only r's id tells these from a range that holder lost and got again.
func (t *tx) held(ctx context.Context, holder string, r Reservation) (found Reservation, state State, err error) {
	err = t.QueryRowContext(ctx, `SELECT id, length, lo, hi, epoch, state FROM kgs_ranges
		WHERE length = $1 AND lo = $2 AND holder = $3 AND (id = $4 OR origin = $4)`, r.Length, r.Lo, holder, r.ID).
		Scan(&found.ID, &found.Length, &found.Lo, &found.Hi, &found.Epoch, &state)
	if errors.Is(err, sql.ErrNoRows) {
		err = kgs.ErrFenced
	}
	return found, state, err
}

// restOf finds what an earlier cut left of r from the number lo on.
func (t *tx) restOf(ctx context.Context, holder string, r Reservation, lo int64) (Reservation, error) {
	r.Lo = lo
	rest, _, err := t.held(ctx, holder, r)
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

// orphan is true of rows whose holder is nobody, or was declared dead.
const orphan = `holder NOT IN (SELECT holder FROM kgs_holders)`
