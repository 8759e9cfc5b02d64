package kgs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Reserve gives holder up to n numbers (at least one), for codes of at least the
// given length, as a range in the given state. Ranges that nobody works on any more
// go first, so that nothing is skipped:
//
//   - for RangeShipping, a shipping range of the current epoch, whole and under its
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
func (l *Ledger) Reserve(ctx context.Context, holder string, state RangeState, length int, n int64) (r Range, err error) {
	if holder == "" || n < 1 {
		return Range{}, fmt.Errorf("ledger: reserve: %d numbers for holder %q", n, holder)
	}
	err = l.post(ctx, "reserve", func(ctx context.Context, p *posting) error {
		if err := p.exec(ctx, p.dialect.renew, holder); err != nil {
			return err
		}
		if state == RangeShipping {
			if r, err = p.adoptShipping(ctx, holder); !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		run, err := p.adoptReserved(ctx, length, n)
		if errors.Is(err, sql.ErrNoRows) {
			run, err = p.advance(ctx, length, n)
		}
		if err != nil {
			return err
		}
		r, err = p.insert(ctx, run, state, holder, "")
		return err
	})
	if err == nil {
		l.reached.note(Reach{Next: map[int]int64{r.Length: r.Hi}})
	}
	return r, err
}

// orphan is true of rows whose holder is nobody, or was declared dead.
const orphan = `holder NOT IN (SELECT holder FROM kgs_holders)`

// adoptShipping takes over the oldest shipping range that lost its holder, or is holder's own.
func (p *posting) adoptShipping(ctx context.Context, holder string) (r Range, err error) {
	err = p.QueryRowContext(ctx, `SELECT id, length, lo, hi, epoch FROM kgs_ranges
		WHERE state = 'shipping' AND epoch = $1 AND (holder = $2 OR `+orphan+`) ORDER BY id LIMIT 1`, p.epoch, holder).
		Scan(&r.ID, &r.Length, &r.Lo, &r.Hi, &r.Epoch)
	if err != nil {
		return Range{}, err
	}
	return r, p.exec(ctx, `UPDATE kgs_ranges SET holder = $1 WHERE id = $2`, holder, r.ID)
}

// adoptReserved takes up to n numbers out of a reserved range that lost its holder.
// They get a new id, and what stays behind has no holder: a frozen process that
// comes back finds neither under the id and the name that it knows.
func (p *posting) adoptReserved(ctx context.Context, length int, n int64) (run Run, err error) {
	var id int64
	err = p.QueryRowContext(ctx, `SELECT id, length, lo, hi FROM kgs_ranges
		WHERE state = 'reserved' AND length >= $1 AND `+orphan+` ORDER BY length, id LIMIT 1`, length).
		Scan(&id, &run.Length, &run.Lo, &run.Hi)
	if err != nil {
		return Run{}, err
	}
	if run.Len() <= n {
		return run, p.exec(ctx, `DELETE FROM kgs_ranges WHERE id = $1`, id)
	}
	run.Hi = run.Lo + n
	return run, p.exec(ctx, `UPDATE kgs_ranges SET lo = $1, holder = '' WHERE id = $2`, run.Hi, id)
}

// advance walks on in the shortest space that has numbers left. A counter that was seen
// further on than it is now has gone back together with its database.
func (p *posting) advance(ctx context.Context, length int, n int64) (run Run, err error) {
	var size int64
	err = p.QueryRowContext(ctx, `SELECT length, next, size FROM kgs_spaces
		WHERE length >= $1 AND next < size ORDER BY length LIMIT 1`, length).
		Scan(&run.Length, &run.Lo, &size)
	if errors.Is(err, sql.ErrNoRows) {
		return Run{}, ErrExhausted
	}
	if err != nil {
		return Run{}, err
	}
	if run.Lo < p.reached.soFar().Next[run.Length] {
		if err := p.jump(ctx); err != nil {
			return Run{}, err
		}
		return p.advance(ctx, length, n)
	}
	run.Hi = run.Lo + min(n, size-run.Lo)
	return run, p.exec(ctx, `UPDATE kgs_spaces SET next = $1 WHERE length = $2`, run.Hi, run.Length)
}

// Cut turns the first n numbers of r, a reserved range of holder, into a batch of
// holder, and gives the rest, which is empty when n covers all of r. ErrFenced when
// r was taken over, all or in part, while holder was frozen.
//
// A repeat after an error gives the batch of the first try if that was made, with
// the n of then. If the caller crashes after it, the batch waits for Sweep.
func (l *Ledger) Cut(ctx context.Context, holder string, r Range, n int64) (batch, rest Range, err error) {
	if n < 1 || r.Len() < 1 {
		return batch, rest, fmt.Errorf("ledger: cut: %d of %d numbers", n, r.Len())
	}
	err = l.post(ctx, "cut", func(ctx context.Context, p *posting) error {
		if err := p.exec(ctx, p.dialect.renew, holder); err != nil {
			return err
		}
		found, state, err := p.held(ctx, holder, r)
		switch {
		case err != nil:
			return err
		case state == RangeBatch: // this very cut was made before, and the answer lost
			batch = found
			rest, err = p.restOf(ctx, holder, r, found.Hi)
		case found != r:
			return ErrFenced
		case n >= r.Len():
			batch = r
			err = p.exec(ctx, `UPDATE kgs_ranges SET state = 'batch', origin = id WHERE id = $1`, r.ID)
		default:
			batch, rest, err = p.split(ctx, holder, r, n)
		}
		return err
	})
	return batch, rest, err
}

// held finds what holder has where r begins: r itself, or the batch that was cut
// from it. Only r's id tells these from a range that holder lost and got again.
func (p *posting) held(ctx context.Context, holder string, r Range) (found Range, state RangeState, err error) {
	err = p.QueryRowContext(ctx, `SELECT id, length, lo, hi, epoch, state FROM kgs_ranges
		WHERE length = $1 AND lo = $2 AND holder = $3 AND (id = $4 OR origin = $4)`, r.Length, r.Lo, holder, r.ID).
		Scan(&found.ID, &found.Length, &found.Lo, &found.Hi, &found.Epoch, &state)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrFenced
	}
	return found, state, err
}

// restOf finds what an earlier cut left of r from the number lo on.
func (p *posting) restOf(ctx context.Context, holder string, r Range, lo int64) (Range, error) {
	r.Lo = lo
	rest, _, err := p.held(ctx, holder, r)
	if errors.Is(err, ErrFenced) {
		return Range{}, nil
	}
	return rest, err
}

func (p *posting) split(ctx context.Context, holder string, r Range, n int64) (batch, rest Range, err error) {
	rest, batch = r, r
	rest.Lo += n
	batch.Hi = rest.Lo
	if err := p.exec(ctx, `UPDATE kgs_ranges SET lo = $1 WHERE id = $2`, rest.Lo, r.ID); err != nil {
		return Range{}, Range{}, err
	}
	if batch, err = p.insert(ctx, batch.Run, RangeBatch, holder, ""); err != nil {
		return Range{}, Range{}, err
	}
	return batch, rest, p.exec(ctx, `UPDATE kgs_ranges SET origin = $1 WHERE id = $2`, r.ID, batch.ID)
}
