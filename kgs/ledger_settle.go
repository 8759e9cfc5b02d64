package kgs

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Deliver closes the books on r, a shipping range that is all in the pool by now,
// and gives the floor: the smallest id of the ranges that are still shipping or ever
// will be. Nothing below it can be shipped any more, because a range begins to ship
// under a new id only, ids become visible in the order they are given, and a range
// that has left the state never comes back to it. So the pool may refuse
// every push under an id below a floor that it was told, and forget what it noted of
// those: that is what stops a worker that was frozen in mid-push.
//
// It may be repeated, also by another worker that took r over and went on to the
// end. A crash before it leaves r to be taken over by a worker that finds nothing
// left to push.
func (l *Ledger) Deliver(ctx context.Context, r Range) (floor int64, err error) {
	err = l.post(ctx, "deliver", func(ctx context.Context, p *posting) error {
		if err := p.exec(ctx, `DELETE FROM kgs_ranges WHERE id = $1 AND state = 'shipping'`, r.ID); err != nil {
			return err
		}
		return p.QueryRowContext(ctx,
			`SELECT coalesce(min(id), $1) FROM kgs_ranges WHERE state = 'shipping'`, p.last+1).Scan(&floor)
	})
	return floor, err
}

// Settle closes the books on the batch of holder with the given id: unused runs are
// reserved again, for anyone, lost ones are abandoned, and all else is spent. The
// runs must lie in the batch and not overlap. A batch that is not there any more
// was settled or given up before; then nothing is changed.
//
// If the caller crashes before it, Sweep gives up the whole batch.
func (l *Ledger) Settle(ctx context.Context, holder string, id int64, unused, lost []Run) error {
	return l.post(ctx, "settle", func(ctx context.Context, p *posting) error {
		var batch Run
		err := p.QueryRowContext(ctx, `DELETE FROM kgs_ranges WHERE id = $1 AND holder = $2 AND state = 'batch'
			RETURNING length, lo, hi`, id, holder).Scan(&batch.Length, &batch.Lo, &batch.Hi)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := batch.mustContain(slices.Concat(unused, lost)); err != nil {
			return err
		}
		for _, run := range unused {
			if _, err := p.insert(ctx, run, RangeReserved, "", ""); err != nil {
				return err
			}
		}
		return p.abandonAll(ctx, lost, ReasonLostReply)
	})
}

// mustContain fails unless all runs lie in r and no two of them overlap: numbers
// from elsewhere would be in the books twice, and so be handed out twice.
func (r Run) mustContain(runs []Run) error {
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Compare(a.Lo, b.Lo) })
	lo := r.Lo
	for _, run := range runs {
		if run.Length != r.Length || run.Lo < lo || run.Hi <= run.Lo || run.Hi > r.Hi {
			return fmt.Errorf("%+v does not belong to what is left of the batch %+v", run, r)
		}
		lo = run.Hi
	}
	return nil
}

// Abandon gives up runs that have no row in the ledger, because a pool had them and
// its holder died. It may be repeated with the same runs: what was given up stays
// so, and is counted once.
func (l *Ledger) Abandon(ctx context.Context, runs []Run, reason string) error {
	if len(runs) == 0 {
		return nil
	}
	return l.post(ctx, "abandon", func(ctx context.Context, p *posting) error {
		return p.abandonAll(ctx, runs, reason)
	})
}

// Sweep declares holders dead whose beat stood still for deadAfter looks, that is calls
// of Sweep at least beatInterval apart, and gives up the batches of all that are dead.
// It tells how many numbers those were, some of which may have been linked, which
// their holder can no longer tell. Only beats count, not times: no clock that jumps
// can end a lease, nor does a process that was frozen itself take others for dead. What
// clients have by [Ledger.Lend] nobody beats for: see ExpireLeases.
//
// Any number of processes may sweep. A crash after it changes nothing.
func (l *Ledger) Sweep(ctx context.Context) (abandoned int64, err error) {
	err = l.post(ctx, "sweep", func(ctx context.Context, p *posting) error {
		seen, err := collect(ctx, p.Tx, scanBeat, `SELECT holder, beat FROM kgs_holders`)
		if err != nil {
			return err
		}
		for _, holder := range l.beats.look(time.Now(), seen) {
			if err := p.exec(ctx, `DELETE FROM kgs_holders WHERE holder = $1`, holder); err != nil {
				return err
			}
		}
		dead, err := collect(ctx, p.Tx, scanRun,
			`DELETE FROM kgs_ranges WHERE state = 'batch' AND lease = 0 AND `+orphan+` RETURNING length, lo, hi`)
		if err != nil {
			return err
		}
		for _, run := range dead {
			abandoned += run.Len()
		}
		return p.abandonAll(ctx, dead, ReasonCrash)
	})
	if err != nil {
		return 0, err
	}
	return abandoned, nil
}

// Holders are the processes that are not known to be dead.
func (l *Ledger) Holders(ctx context.Context) (holders []string, err error) {
	err = l.look(ctx, "holders", func(tx *sql.Tx) error {
		beats, err := collect(ctx, tx, scanBeat, `SELECT holder, beat FROM kgs_holders`)
		for _, b := range beats {
			holders = append(holders, b.holder)
		}
		return err
	})
	return holders, err
}

func (p *posting) abandonAll(ctx context.Context, runs []Run, reason string) error {
	for _, run := range runs {
		if err := p.abandon(ctx, run, reason); err != nil {
			return err
		}
	}
	return nil
}

// abandon gives up one run, unless that was done before, and joins it with the abandoned
// ranges of the same reason that it touches, so that the table does not grow with every
// crash. What was given up for another reason stays so.
func (p *posting) abandon(ctx context.Context, run Run, reason string) error {
	// No two ranges overlap, so of those that begin before run only the last can reach it. To
	// look at the others too would take ever longer as the table grows.
	near, err := collect(ctx, p.Tx, scanBooked, selectBooked+` WHERE length = $1 AND lo <= $2 AND hi >= $3
		AND lo >= coalesce((SELECT max(lo) FROM kgs_ranges WHERE length = $1 AND lo <= $3), $3)
		AND state = 'abandoned' ORDER BY lo`, run.Length, run.Hi, run.Lo)
	if err != nil {
		return err
	}
	for _, row := range near {
		if row.Lo <= run.Lo && run.Hi <= row.Hi {
			return nil
		}
		if row.Reason == reason {
			if err := p.exec(ctx, `DELETE FROM kgs_ranges WHERE id = $1`, row.ID); err != nil {
				return err
			}
			run.Lo, run.Hi = min(run.Lo, row.Lo), max(run.Hi, row.Hi)
			continue
		}
		if row.Lo > run.Lo { // what lies before it is given up now, what lies behind it next
			before := Run{Length: run.Length, Lo: run.Lo, Hi: min(row.Lo, run.Hi)}
			if _, err := p.insert(ctx, before, RangeAbandoned, "", reason); err != nil {
				return err
			}
		}
		if run.Lo = max(run.Lo, row.Hi); run.Len() <= 0 {
			return nil
		}
	}
	_, err = p.insert(ctx, run, RangeAbandoned, "", reason)
	return err
}

// Renew says that holder is alive; it is to be called once a beatInterval. Reserve and
// Cut say so too. A holder must be known here before it takes anything from a pool.
func (l *Ledger) Renew(ctx context.Context, holder string) error {
	return l.post(ctx, "renew", func(ctx context.Context, p *posting) error {
		return p.exec(ctx, l.dialect.renew, holder)
	})
}

// Release ends holder in good order: its reserved and shipping ranges can be taken
// over at once, and a batch that it did not settle is for Sweep. It may be repeated.
// After a crash before it, the same happens once Sweep has declared holder dead.
func (l *Ledger) Release(ctx context.Context, holder string) error {
	return l.post(ctx, "release", func(ctx context.Context, p *posting) error {
		err := p.exec(ctx, `UPDATE kgs_ranges SET holder = ''
			WHERE holder = $1 AND state IN ('reserved', 'shipping')`, holder)
		if err != nil {
			return err
		}
		return p.exec(ctx, `DELETE FROM kgs_holders WHERE holder = $1`, holder)
	})
}
