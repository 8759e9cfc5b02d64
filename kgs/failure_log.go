package kgs

import (
	"log/slog"
)

// FailureLog logs the first failure of a recurring task and the success that ends the failures,
// but not the failures in between. It is not safe for concurrent use.
type FailureLog struct {
	log  *slog.Logger
	what string // what fails, for example "the pool is not refilled"
	on   bool
}

// Note records the result of one attempt: nil for a success.
func (t *FailureLog) Note(err error) {
	switch {
	case err != nil && !t.on:
		t.log.Warn("trouble", slog.String("what", t.what), slog.Any("error", err))
	case err == nil && t.on:
		t.log.Info("trouble is over", slog.String("what", t.what))
	}
	t.on = err != nil
}

// NewFailureLog returns a FailureLog that describes the failing task as what.
func NewFailureLog(log *slog.Logger, what string) FailureLog { return FailureLog{log: log, what: what} }
