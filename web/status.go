package web

import (
	"slices"
	"strconv"
	"time"
)

// Status is the state of the key supply as a program sees it: the body of /status.
// A nil member is unknown just now, or does not exist for this key source.
type Status struct {
	State        string     `json:"state"`         // "filling", "ok", "restart" or "page"
	KeySource    string     `json:"key_source"`    // KEY_SOURCE
	ServingFrom  *string    `json:"serving_from"`  // "batch", "fallback" or "none"
	ServingSince *time.Time `json:"serving_since"` // when ServingFrom became what it is

	PoolKeys          *int64   `json:"pool_keys"`
	CapacityKeys      *int64   `json:"capacity_keys"`
	LocalKeys         *int64   `json:"local_keys"`
	RunwaySeconds     *float64 `json:"runway_seconds"`      // of the pool, at the rate of all servers
	TakenPerSecond    *float64 `json:"taken_per_second"`    // by this server
	RefilledPerSecond *float64 `json:"refilled_per_second"` // by this program's worker
	Epoch             *int64   `json:"epoch"`
	MayEvict          *bool    `json:"may_evict"` // whether Redis may drop keys of the pool

	SpaceLength              *int     `json:"space_length"`
	SpaceUsedRatio           *float64 `json:"space_used_ratio"`
	SpaceRunwaySeconds       *float64 `json:"space_runway_seconds"` // at the rate of reserving
	FallbackAttemptsExpected *float64 `json:"fallback_attempts_expected"`

	Breaker *string   `json:"breaker"` // "closed", "half-open" or "open"
	Since   time.Time `json:"since"`   // when State became what it is
}

// Row is one line of the facts on the dashboard.
type Row struct {
	Label string `json:"label"`
	Value string `json:"value"`
	Bad   bool   `json:"bad"` // not as it should be
}

// longRunway is how much space must be left at the least, in seconds: a month.
const longRunway = 30 * 24 * 60 * 60

// Rows shows the members to people, without those that this program does not have.
func (s Status) Rows() []Row {
	rows := []Row{{Label: "In this state since", Value: moment(s.Since)}, {Label: "Key source", Value: s.KeySource}}
	if s.ServingFrom != nil {
		rows = append(rows,
			Row{Label: "Serving from", Value: *s.ServingFrom, Bad: s.fallenBack()},
			Row{Label: "Serving since", Value: show(s.ServingSince, moment)})
	}
	if s.Breaker != nil {
		rows = append(rows, Row{Label: "Circuit breaker", Value: *s.Breaker, Bad: *s.Breaker != "closed"})
	}
	if s.LocalKeys != nil {
		rows = append(rows,
			Row{Label: "Keys in the local batch", Value: show(s.LocalKeys, grouped)},
			Row{Label: "Taken a second by this server", Value: show(s.TakenPerSecond, decimals(1))})
	}
	return slices.Concat(rows, s.poolRows(), s.spaceRows())
}

func (s Status) poolRows() []Row {
	if !s.hasPool() {
		return nil
	}
	rows := []Row{
		{Label: "Keys in the pool", Value: show(s.PoolKeys, grouped)},
		{Label: "Capacity of the pool", Value: show(s.CapacityKeys, grouped)},
		{Label: "Pool lasts", Value: show(s.RunwaySeconds, duration)},
	}
	if s.RefilledPerSecond != nil {
		rows = append(rows, Row{Label: "Refilled a second by this program", Value: show(s.RefilledPerSecond, decimals(1))})
	}
	if s.poolInRedis() {
		rows = append(rows,
			Row{Label: "Redis may evict keys", Value: show(s.MayEvict, yesNo), Bad: known(s.MayEvict, func(v bool) bool { return v })},
			Row{Label: "Epoch", Value: show(s.Epoch, grouped)})
	}
	return rows
}

func (s Status) spaceRows() []Row {
	if !s.hasPool() && s.LocalKeys == nil { // codes by chance alone
		return nil
	}
	return []Row{
		{Label: "Code length", Value: show(s.SpaceLength, strconv.Itoa)},
		{Label: "Space used", Value: show(s.SpaceUsedRatio, func(v float64) string { return decimals(6)(100*v) + " %" })},
		{
			Label: "Space lasts", Value: show(s.SpaceRunwaySeconds, duration),
			Bad: known(s.SpaceRunwaySeconds, func(v float64) bool { return v < longRunway }),
		},
		{Label: "Attempts expected of the fallback", Value: show(s.FallbackAttemptsExpected, decimals(5))},
	}
}

// parts names what a dashboard of this program has to show, present or unknown.
func (s Status) parts() []string {
	var parts []string
	add := func(exists bool, names ...string) {
		if exists {
			parts = append(parts, names...)
		}
	}
	add(s.hasPool(), "pool", "runway")
	add(s.RefilledPerSecond != nil, "refilled")
	add(s.ServingFrom != nil, "created", "create", "taken")
	add(s.LocalKeys != nil, "local")
	add(s.ServingFrom != nil, "redirects", "redirect")
	add(true, "state")
	add(s.ServingFrom != nil, "serving_from")
	add(s.Breaker != nil, "breaker")
	add(s.poolInRedis(), "epoch")
	return parts
}

func (s Status) hasPool() bool { return s.CapacityKeys != nil }

func (s Status) poolInRedis() bool { return s.hasPool() && s.KeySource == "redis-pool" }

// fallenBack reports that keys come from elsewhere than intended.
func (s Status) fallenBack() bool {
	return known(s.ServingFrom, func(v string) bool { return v != "batch" })
}

// Fill is the share of the pool that is full, in percent; "" where there is no telling.
func (s Status) Fill() string {
	if s.PoolKeys == nil {
		return ""
	}
	return s.percent(*s.PoolKeys)
}

// percent is what keys are of a full pool; "" where there is no telling.
func (s Status) percent(keys int64) string {
	if s.CapacityKeys == nil || *s.CapacityKeys <= 0 {
		return ""
	}
	return decimals(1)(100 * float64(keys) / float64(*s.CapacityKeys))
}

// known reports that v is known and bad.
func known[T any](v *T, bad func(T) bool) bool { return v != nil && bad(*v) }

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func yesNo(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}

// duration writes seconds in the unit that people would use.
func duration(seconds float64) string {
	const hour, day = 60 * 60, 24 * 60 * 60
	switch {
	case seconds < 2*hour:
		return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
	case seconds < 2*day:
		return grouped(int64(seconds/hour)) + " hours"
	case seconds < 730*day:
		return grouped(int64(seconds/day)) + " days"
	}
	return grouped(int64(seconds/(365*day))) + " years"
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
