package transfer

import (
	"context"

	"keypool/shortener/visits"
)

// Visits keeps how often links are visited. Both methods block until the database answers.
type Visits interface {
	// Totals returns the visits of each code, with all visits that are in the database. A code without visits is absent.
	Totals(ctx context.Context, codes []string) (map[string]visits.Count, error)
	// SetPast stores the visits that links had before their import, in one transaction. It does nothing for a link
	// that has such visits already, so that it may be repeated.
	SetPast(ctx context.Context, links []visits.Past) error
}
