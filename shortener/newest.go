package shortener

import (
	"math"
	"time"
)

// Before is a position in the list of the links of a store, from the newest to the oldest. Links that were
// created in the same microsecond are in this order: the links with a rank, from the highest rank to the
// lowest, and then the links without a rank, from the last code to the first.
type Before struct {
	At   time.Time
	Rank int64  // bound of the links with a rank that were created at At
	Code string // bound of the links without a rank that were created at At
}

const afterRanks, afterCodes = math.MaxInt64, "~" // no code contains a tilde, which is greater than every letter

// before returns the position of a cursor.
func before(o Order, c Cursor) Before {
	if c.IsZero() {
		return Before{time.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC), afterRanks, afterCodes}
	}
	if rank, ok := o.Rank(c.Code); ok {
		return Before{c.At, rank, afterCodes}
	}
	return Before{c.At, -1, c.Code}
}

// MergeNewest implements [Store.Newest] for a store with the given order. Each of the two functions reads up to
// Limit links of one table that follow a position, from the newest to the oldest.
func MergeNewest(o Order, s Selection, ranked, unranked func(Before) ([]Link, error)) ([]Link, error) {
	position := before(o, s.After)
	a, err := ranked(position)
	if err != nil {
		return nil, err
	}
	b, err := unranked(position)
	if err != nil {
		return nil, err
	}
	merged := make([]Link, 0, min(s.Limit, len(a)+len(b)))
	for len(merged) < cap(merged) {
		if len(b) == 0 || len(a) > 0 && !a[0].CreatedAt.Before(b[0].CreatedAt) {
			merged, a = append(merged, a[0]), a[1:]
		} else {
			merged, b = append(merged, b[0]), b[1:]
		}
	}
	return merged, nil
}
