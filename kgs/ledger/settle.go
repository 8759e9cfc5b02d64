package ledger

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

// Deliver removes the row of r, a shipping range that is all in the pool by now,
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
func (l *Ledger) Deliver(ctx context.Context, r Reservation) (floor int64, err error) {
	err = l.update(ctx, "deliver", func(ctx context.Context, t *tx) error {
		if err := t.exec(ctx, `DELETE FROM kgs_ranges WHERE id = $1 AND state = 'shipping'`, r.ID); err != nil {
			return err
		}
		return t.QueryRowContext(ctx,
			`SELECT coalesce(min(id), $1) FROM kgs_ranges WHERE state = 'shipping'`, t.last+1).Scan(&floor)
	})
	return floor, err
}

// Settle removes the row of the batch of holder with the given id: unused ranges are
// reserved again, for anyone, lost ones are abandoned, and all else is spent. The
// ranges must lie in the batch and not overlap. A batch that is not there any more
// was settled or given up before; then nothing is changed.
//
// If the caller crashes before it, Sweep gives up the whole batch.
func (l *Ledger) Settle(ctx context.Context, holder string, id int64, unused, lost []codespace.Range) error {
	return l.update(ctx, "settle", func(ctx context.Context, t *tx) error {
		var batch codespace.Range
		err := t.QueryRowContext(ctx, `DELETE FROM kgs_ranges WHERE id = $1 AND holder = $2 AND state = 'batch'
			RETURNING length, lo, hi`, id, holder).Scan(&batch.Length, &batch.Lo, &batch.Hi)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		// Numbers from elsewhere would have two rows, and would be handed out twice.
		if _, err := codespace.Without([]codespace.Range{batch}, slices.Concat(unused, lost)); err != nil {
			return err
		}
		for _, numbers := range unused {
			if _, err := t.insert(ctx, numbers, StateReserved, "", ""); err != nil {
				return err
			}
		}
		return t.abandonAll(ctx, lost, kgs.ReasonLostReply)
	})
}

// Abandon gives up ranges that have no row in the ledger, because a pool had them and
// its holder died. It may be repeated with the same ranges: what was given up stays
// so, and is counted once.
func (l *Ledger) Abandon(ctx context.Context, ranges []codespace.Range, reason string) error {
	if len(ranges) == 0 {
		return nil
	}
	return l.update(ctx, "abandon", func(ctx context.Context, t *tx) error {
		return t.abandonAll(ctx, ranges, reason)
	})
}

func (t *tx) abandonAll(ctx context.Context, ranges []codespace.Range, reason string) error {
	for _, numbers := range ranges {
		if err := t.abandon(ctx, numbers, reason); err != nil {
			return err
		}
	}
	return nil
}

// abandon gives up one range, unless that was done before, and joins it with the abandoned
// ranges of the same reason that it touches, so that the table does not grow with every
// crash. What was given up for another reason stays so.
func (t *tx) abandon(ctx context.Context, numbers codespace.Range, reason string) error {
	// No two ranges overlap, so of those that begin before this one only the last can touch it. To
	// look at the others too would take ever longer as the table grows.
	near, err := collect(ctx, t.Tx, scanRow, selectRows+` WHERE length = $1 AND lo <= $2 AND hi >= $3
		AND lo >= coalesce((SELECT max(lo) FROM kgs_ranges WHERE length = $1 AND lo <= $3), $3)
		AND state = 'abandoned' ORDER BY lo`, numbers.Length, numbers.Hi, numbers.Lo)
	if err != nil {
		return err
	}
	for _, row := range near {
		if row.Lo <= numbers.Lo && numbers.Hi <= row.Hi {
			return nil
		}
		if row.Reason == reason {
			if err := t.exec(ctx, `DELETE FROM kgs_ranges WHERE id = $1`, row.ID); err != nil {
				return err
			}
			numbers.Lo, numbers.Hi = min(numbers.Lo, row.Lo), max(numbers.Hi, row.Hi)
			continue
		}
		if row.Lo > numbers.Lo { // what lies before it is given up now, what lies behind it next
			before := codespace.Range{Length: numbers.Length, Lo: numbers.Lo, Hi: min(row.Lo, numbers.Hi)}
			if _, err := t.insert(ctx, before, StateAbandoned, "", reason); err != nil {
				return err
			}
		}
		if numbers.Lo = max(numbers.Lo, row.Hi); numbers.Len() <= 0 {
			return nil
		}
	}
	_, err = t.insert(ctx, numbers, StateAbandoned, "", reason)
	return err
}
