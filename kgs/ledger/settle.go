package ledger

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

// Settle removes the row of a batch. The batch has the given id and belongs to holder. The
// unused ranges become reserved ranges without a holder. The lost ranges are abandoned as
// ReasonLostReply. All other numbers are used. The ranges must be in the batch and must not
// overlap. If the batch has no row, it is already settled or abandoned, and Settle changes
// nothing.
//
// If the caller crashes before Settle, Sweep abandons the whole batch.
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
		// Numbers outside the batch could get a second row and be handed out twice.
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

// ErrShipping means that numbers cannot be abandoned yet, because a shipping range begins within them.
var ErrShipping = errors.New("a range that is on its way to the pool begins within the numbers")

// Abandon abandons ranges that were in a pool or in a batch of the pool. Such ranges have no row of
// their own in the ledger. The caller may repeat Abandon, because numbers that are already abandoned count
// only once.
//
// If a shipping range begins within one of the ranges, Abandon changes nothing and fails with ErrShipping. The row of a
// shipping range stays until the range is delivered, although servers may already have taken its first keys. The table
// cannot have a second row that begins at the same number. Abandon succeeds after the shipping range is delivered.
func (l *Ledger) Abandon(ctx context.Context, ranges []codespace.Range, reason string) error {
	if len(ranges) == 0 {
		return nil
	}
	return l.update(ctx, "abandon", func(ctx context.Context, t *tx) error {
		if err := t.checkShipping(ctx, ranges); err != nil {
			return err
		}
		return t.abandonAll(ctx, ranges, reason)
	})
}

// checkShipping returns ErrShipping if a shipping range begins within one of the ranges.
func (t *tx) checkShipping(ctx context.Context, ranges []codespace.Range) error {
	shipping, err := collect(ctx, t.Tx, scanRange, `SELECT length, lo, hi FROM kgs_ranges WHERE state = 'shipping'`)
	if err != nil {
		return err
	}
	for _, numbers := range ranges {
		for _, s := range shipping {
			if s.Length == numbers.Length && s.Lo >= numbers.Lo && s.Lo < numbers.Hi {
				return ErrShipping
			}
		}
	}
	return nil
}

func (t *tx) abandonAll(ctx context.Context, ranges []codespace.Range, reason string) error {
	for _, numbers := range ranges {
		if err := t.abandon(ctx, numbers, reason); err != nil {
			return err
		}
	}
	return nil
}

// abandon abandons one range, except for the parts that are already abandoned. It joins the
// range with adjacent abandoned ranges of the same reason, so that the table does not grow with
// every crash. Parts that were abandoned for another reason keep that reason.
func (t *tx) abandon(ctx context.Context, numbers codespace.Range, reason string) error {
	// Many rows may begin at or before numbers.Lo. Only the last of these rows can be an abandoned row that is adjacent
	// to the range or overlaps it: abandoned rows do not overlap each other, and no abandoned row contains the first
	// number of a shipping row. The query leaves out the earlier rows. Otherwise it would become slower as the table
	// grows.
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
		if row.Lo > numbers.Lo { // abandon the part before the row now, and the part after it in the next step
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
