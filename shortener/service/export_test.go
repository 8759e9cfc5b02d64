package service

import (
	"time"
)

// This file exports internals to the tests in package service_test, which use SQLite databases.

const (
	PingTimeout   = pingTimeout
	RefusalMemory = refusalMemory
)

// Stamp returns a time as a store keeps it.
func Stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// Cached reports whether the cache of s has code.
func (s *Service) Cached(code string) bool {
	_, known := s.cache.present(code)
	return known
}
