package admin

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// paged is the status of a server with few keys left in the pool, in a Redis that may evict keys.
func paged() Status {
	s := full()
	s.State, s.PoolKeys, s.RunwaySeconds, s.MayEvict = "page", new(int64(43210)), new(43.2), new(true)
	s.SpaceRunwaySeconds = new(12.5 * 24 * 60 * 60)
	return s
}

// fallenBack is the status of a server during an outage of Redis.
func fallenBack() Status {
	s := full()
	s.State, s.ServingFrom, s.Breaker, s.LocalKeys = "page", new("fallback"), new("open"), new(int64(0))
	s.PoolKeys, s.RunwaySeconds, s.RefilledPerSecond, s.Epoch, s.MayEvict = nil, nil, new(0.0), nil, nil
	s.SpaceRunwaySeconds, s.FallbackAttemptsExpected = nil, nil
	return s
}

func TestDashboardHighlightsBadValues(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*Status)
		marked int
	}{
		"no fault":               {func(*Status) {}, 0},
		"fallback":               {func(s *Status) { s.ServingFrom = new("fallback") }, 1},
		"no keys":                {func(s *Status) { s.ServingFrom = new("none") }, 1},
		"key source random":      {func(s *Status) { s.ServingFrom, s.LocalKeys = new("batch"), nil }, 0},
		"breaker":                {func(s *Status) { s.Breaker = new("half-open") }, 1},
		"eviction":               {func(s *Status) { s.MayEvict = new(true) }, 1},
		"short space runway":     {func(s *Status) { s.SpaceRunwaySeconds = new(14 * 24 * 3600.0) }, 1},
		"unknown":                {func(s *Status) { *s = Status{State: "filling", KeySource: "redis-pool"} }, 0},
		"page":                   {func(s *Status) { *s = paged() }, 2},
		"Redis outage":           {func(s *Status) { *s = fallenBack() }, 2},
		"a pool that is not low": {func(s *Status) { s.RunwaySeconds = new(1.0) }, 0}, // only the state reports a low pool
	}
	for name, tt := range tests {
		s := full()
		tt.change(&s)
		w := get(t, newTestAdmin(nil, s), "/")
		if n := strings.Count(w.Body.String(), `<dd class="bad">`); n != tt.marked || w.Code != http.StatusOK {
			t.Errorf("%s: the page marks %d rows, want %d", name, n, tt.marked)
		}
	}
}

func TestMomentIsFormattedInUTC(t *testing.T) {
	t.Parallel()
	if got := moment(time.Date(2026, 1, 2, 4, 4, 5, 0, time.FixedZone("", 3600))); got != "2026-01-02 03:04:05 UTC" {
		t.Error(got)
	}
}

func TestPercentShowsZeroOnlyForZero(t *testing.T) {
	t.Parallel()
	for ratio, want := range map[float64]string{0: "0.000000 %", 4e-10: "< 0.000001 %", 1e-8: "0.000001 %", 0.5: "50.000000 %"} {
		if got := percent(ratio); got != want {
			t.Errorf("percent(%v) = %q, want %q", ratio, got, want)
		}
	}
}
