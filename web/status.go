package web

import (
	"strconv"
	"time"
)

// Status is the state of the key supply as a program sees it: the body of /status.
// A nil member is unknown just now, or does not exist for this key source.
type Status struct {
	State       string  `json:"state"`        // "filling", "ok", "restart" or "page"
	KeySource   string  `json:"key_source"`   // KEY_SOURCE
	ServingFrom *string `json:"serving_from"` // "batch", "fallback" or "none"

	PoolKeys          *int64   `json:"pool_keys"`
	CapacityKeys      *int64   `json:"capacity_keys"`
	LocalKeys         *int64   `json:"local_keys"`
	RunwaySeconds     *float64 `json:"runway_seconds"`
	TakenPerSecond    *float64 `json:"taken_per_second"`
	RefilledPerSecond *float64 `json:"refilled_per_second"`
	Epoch             *int64   `json:"epoch"`

	SpaceLength              *int     `json:"space_length"`
	SpaceUsedRatio           *float64 `json:"space_used_ratio"`
	FallbackAttemptsExpected *float64 `json:"fallback_attempts_expected"`

	Breaker *string   `json:"breaker"` // "closed", "half-open" or "open"
	Since   time.Time `json:"since"`   // when State became what it is
}

// Row is one line of the status page.
type Row struct{ Label, Value string }

// Rows shows the members to people.
func (s Status) Rows() []Row {
	return []Row{
		{"Key source", s.KeySource},
		{"Serving from", show(s.ServingFrom, func(v string) string { return v })},
		{"Keys in the pool", show(s.PoolKeys, grouped)},
		{"Capacity of the pool", show(s.CapacityKeys, grouped)},
		{"Keys in the local batch", show(s.LocalKeys, grouped)},
		{"Runway", show(s.RunwaySeconds, func(v float64) string {
			return time.Duration(v * float64(time.Second)).Round(time.Second).String()
		})},
		{"Taken a second", show(s.TakenPerSecond, decimals(1))},
		{"Refilled a second", show(s.RefilledPerSecond, decimals(1))},
		{"Epoch", show(s.Epoch, grouped)},
		{"Code length", show(s.SpaceLength, strconv.Itoa)},
		{"Space used", show(s.SpaceUsedRatio, func(v float64) string { return decimals(6)(100*v) + " %" })},
		{"Attempts expected of the fallback", show(s.FallbackAttemptsExpected, decimals(5))},
		{"Circuit breaker", show(s.Breaker, func(v string) string { return v })},
		{"In this state since", s.Since.UTC().Format("2006-01-02 15:04:05 UTC")},
	}
}

// Fill is the share of the pool that is full, in percent; "" where there is no telling.
func (s Status) Fill() string {
	if s.PoolKeys == nil || s.CapacityKeys == nil || *s.CapacityKeys <= 0 {
		return ""
	}
	return decimals(1)(100 * float64(*s.PoolKeys) / float64(*s.CapacityKeys))
}

func show[T any](v *T, format func(T) string) string {
	if v == nil {
		return "unknown"
	}
	return format(*v)
}

func decimals(n int) func(float64) string {
	return func(v float64) string { return strconv.FormatFloat(v, 'f', n, 64) }
}

// grouped writes a count with its thousands apart.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
