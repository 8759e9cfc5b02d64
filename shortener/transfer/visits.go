package transfer

import "context"

// Visits keeps how often links are visited. Both methods block until the database answers.
type Visits interface {
	// Totals returns the visits of each code, with all visits that are in the database. A code without visits is absent.
	Totals(ctx context.Context, codes []string) (map[string]Total, error)
	// SetPast stores the visits that links had before their import, in one transaction. It does nothing for a link
	// that has such visits already, so that it may be repeated.
	SetPast(ctx context.Context, visits []Past) error
}

// Past is the visits of a link before its import.
type Past struct {
	Code  string
	Owner int64 // id of a token, 0 for an anonymous link
	Total
}
