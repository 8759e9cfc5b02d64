package kgs

import (
	"log/slog"
)

// FailureLog logs when something begins to fail and when that is over, but not each time
// in between. It is not safe for concurrent use.
type FailureLog struct {
	log  *slog.Logger
	what string // "the pool is not refilled"
	on   bool
}

// Note takes the outcome of one more try into account.
func (t *FailureLog) Note(err error) {
	switch {
	case err != nil && !t.on:
		t.log.Warn("trouble", slog.String("what", t.what), slog.Any("error", err))
	case err == nil && t.on:
		t.log.Info("trouble is over", slog.String("what", t.what))
	}
	t.on = err != nil
}

// NewFailureLog makes a log of the failures of what.
func NewFailureLog(log *slog.Logger, what string) FailureLog { return FailureLog{log: log, what: what} }
