package admin

import (
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"

	"keypool/internal/human"
)

// Status is the body of /status. It describes the key source and its pool as this program
// observes them. A nil member is unknown, does not exist for this key source, or has no value
// at present, such as a runway while no keys are taken.
type Status struct {
	State        string     `json:"state"`         // "filling", "ok", "restart" or "page"
	KeySource    string     `json:"key_source"`    // KEY_SOURCE
	ServingFrom  *string    `json:"serving_from"`  // "batch", "fallback" or "none"
	ServingSince *time.Time `json:"serving_since"` // when ServingFrom took its present value

	PoolKeys          *int64   `json:"pool_keys"`
	CapacityKeys      *int64   `json:"capacity_keys"`
	LocalKeys         *int64   `json:"local_keys"`
	RunwaySeconds     *float64 `json:"runway_seconds"`      // runway of the pool at the rate at which all servers take keys; docs/operations.md explains when it is nil
	TakenPerSecond    *float64 `json:"taken_per_second"`    // keys that this server's creations took from the local batch, over the last five seconds
	RefilledPerSecond *float64 `json:"refilled_per_second"` // keys that this program's worker adds to the pool
	Epoch             *int64   `json:"epoch"`
	MayEvict          *bool    `json:"may_evict"` // whether Redis may evict keys of the pool

	SpaceLength              *int     `json:"space_length"`
	SpaceUsedRatio           *float64 `json:"space_used_ratio"`
	SpaceRunwaySeconds       *float64 `json:"space_runway_seconds"` // at the rate at which servers take keys; nil while servers take no keys
	FallbackAttemptsExpected *float64 `json:"fallback_attempts_expected"`

	CountsSpace  bool   `json:"-"` // whether the ledger counts the numbers of this program's keys
	KeysReserved *int64 `json:"-"` // numbers that all processes have reserved in the ledger; not in /status, only a metric

	Breaker *string   `json:"breaker"` // "closed", "half-open" or "open"
	Since   time.Time `json:"since"`   // when State took its present value

	Limits *Limits `json:"limits"` // nil in a program that does not serve links
}

// Limits describes the limits of a server for its clients.
type Limits struct {
	Anonymous       bool     `json:"anonymous"`                 // whether clients may create links without a token
	AnonymousRate   string   `json:"anonymous_rate"`            // creations of an address, such as "10/s", or "off"
	LoopbackLimited bool     `json:"loopback_limited"`          // whether AnonymousRate applies to loopback addresses
	AnonymousMaxAge *float64 `json:"anonymous_max_age_seconds"` // longest life of an anonymous link; nil for no maximum
	MissRate        int      `json:"miss_rate"`                 // misses that an address may have per second
	MissBurst       int      `json:"miss_burst"`                // misses that an address may have at once
	Refused         Refused  `json:"refused"`
}

// Refused is the number of requests that each limit refused since the start of the server.
type Refused struct {
	Anonymous int64 `json:"anonymous"`
	Token     int64 `json:"token"`
	Miss      int64 `json:"miss"`
}

// Row is one line of the facts on the dashboard.
type Row struct {
	Label string `json:"label"`
	Value string `json:"value"`
	Bad   bool   `json:"bad"` // whether the value needs attention
}

// shortRunway is the runway of the space, in seconds, below which the dashboard marks the
// value as bad. It is 30 days, which is enough time to plan longer codes.
const shortRunway = 30 * 24 * 60 * 60

// idle is the text for a runway while no keys are taken.
const idle = "idle"

// Rows returns the facts for the dashboard. It leaves out the facts that do not apply to the key source.
func (s Status) Rows() []Row {
	rows := []Row{{Label: "State since", Value: moment(s.Since)}}
	if s.State == stateFailing && s.ServingFrom != nil { // ServingFrom is nil in a program that creates no links
		rows = append(rows, Row{Label: "Creations", Value: "fail", Bad: true})
	}
	rows = append(rows, Row{Label: "Key source", Value: s.KeySource})
	if s.ServingFrom != nil {
		rows = append(rows,
			Row{Label: "Serving from", Value: *s.ServingFrom, Bad: *s.ServingFrom != "batch"},
			Row{Label: "Serving since", Value: show(s.ServingSince, moment)})
	}
	if s.Breaker != nil {
		rows = append(rows, Row{Label: "Circuit breaker", Value: *s.Breaker, Bad: *s.Breaker != "closed"})
	}
	if s.LocalKeys != nil {
		rows = append(rows,
			Row{Label: "Keys in the local batch", Value: show(s.LocalKeys, humanize.Comma)},
			Row{Label: "Keys taken from the key source", Value: show(s.TakenPerSecond, human.PerSecond)})
	}
	return slices.Concat(rows, s.poolRows(), s.spaceRows())
}

func (s Status) poolRows() []Row {
	if !s.hasPool() {
		return nil
	}
	rows := []Row{
		{Label: "Keys in the pool", Value: show(s.PoolKeys, humanize.Comma)},
		{Label: "Pool capacity", Value: show(s.CapacityKeys, humanize.Comma)},
		{Label: "Pool runway", Value: runway(s.RunwaySeconds, s.poolIdle())},
	}
	if s.RefilledPerSecond != nil {
		rows = append(rows, Row{Label: "Keys refilled (moving average)", Value: show(s.RefilledPerSecond, human.PerSecond)})
	}
	if s.poolInRedis() {
		rows = append(rows,
			Row{Label: "Redis may evict keys", Value: show(s.MayEvict, yesNo), Bad: s.MayEvict != nil && *s.MayEvict},
			Row{Label: "Epoch", Value: show(s.Epoch, humanize.Comma)})
	}
	return rows
}

func (s Status) spaceRows() []Row {
	if !s.CountsSpace {
		return nil
	}
	return []Row{
		{Label: "Code length", Value: show(s.SpaceLength, strconv.Itoa)},
		{Label: "Space used", Value: show(s.SpaceUsedRatio, percent)},
		{
			Label: "Space runway", Value: runway(s.SpaceRunwaySeconds, s.spaceIdle()),
			Bad: s.SpaceRunwaySeconds != nil && *s.SpaceRunwaySeconds < shortRunway,
		},
		{Label: "Expected fallback attempts", Value: show(s.FallbackAttemptsExpected, decimals(5))},
	}
}

// parts lists the parts of the dashboard that this program has. It includes parts whose
// values are unknown at present.
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

// Fill returns the fill level of the pool in percent, or "" if the level is unknown.
func (s Status) Fill() string {
	if s.PoolKeys == nil {
		return ""
	}
	return s.percent(*s.PoolKeys)
}

// percent returns keys as a percentage of a full pool, or "" if there is no pool.
func (s Status) percent(keys int64) string {
	if s.CapacityKeys == nil || *s.CapacityKeys <= 0 {
		return ""
	}
	return decimals(1)(100 * float64(keys) / float64(*s.CapacityKeys))
}

// poolIdle reports whether the pool can be read but has no finite runway. Either servers take no keys from the pool, or an
// empty pool fills for the first time in its epoch.
func (s Status) poolIdle() bool { return s.RunwaySeconds == nil && s.PoolKeys != nil }

// spaceIdle reports whether it is known that servers use no numbers of the space. While the pool cannot be read,
// the use of the space is unknown.
func (s Status) spaceIdle() bool {
	return s.SpaceRunwaySeconds == nil && s.SpaceUsedRatio != nil && (s.PoolKeys != nil || !s.hasPool())
}

// runway formats a runway.
func runway(seconds *float64, isIdle bool) string {
	if isIdle {
		return idle
	}
	return show(seconds, human.Duration)
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func yesNo(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}

func show[T any](v *T, format func(T) string) string {
	if v == nil {
		return "unknown"
	}
	return format(*v)
}

// percent formats a ratio. A ratio that is not 0 is never shown as 0.
func percent(ratio float64) string {
	const least = 0.000001
	if ratio > 0 && 100*ratio < least {
		return "< " + decimals(6)(least) + " %"
	}
	return decimals(6)(100*ratio) + " %"
}

func decimals(n int) func(float64) string {
	return func(v float64) string { return strconv.FormatFloat(v, 'f', n, 64) }
}
