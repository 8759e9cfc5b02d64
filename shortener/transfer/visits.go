package transfer

import (
	"context"
	"time"
)

// Visits keeps how often links are visited. Both methods block until the database answers.
type Visits interface {
	// Totals returns the visits of each code, with all visits that are in the database. A code without visits is absent.
	Totals(ctx context.Context, codes []string) (map[string]Total, error)
	// AddPast adds visits of the past, in one transaction. It ignores a code that has visits already, so that a
	// repetition has no effect.
	AddPast(ctx context.Context, visits []Past) error
}

// Past is the visits of a link before its import.
type Past struct {
	Code string
	At   time.Time // time to which the visits are attributed, the creation of the link
	Total
}
