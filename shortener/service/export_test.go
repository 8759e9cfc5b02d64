package service

import (
	"context"
	"time"

	"keypool/shortener"
)

// Internals for the tests in package service_test, which run on the real engines.

const (
	PingTimeout   = pingTimeout
	RefusalMemory = refusalMemory
	MaxAttempts   = maxAttempts
)

var ErrTooSlow = errTooSlow

// Stamp returns a time as a store keeps it.
func Stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// Commit passes link to the group commit of s. It skips the validation, the keys and the cache.
func (s *Service) Commit(ctx context.Context, link shortener.Link) (shortener.Outcome, error) {
	return s.committer.commit(ctx, link)
}

// Cached reports whether the cache of s has code.
func (s *Service) Cached(code string) bool {
	_, known := s.cache.present(code)
	return known
}
