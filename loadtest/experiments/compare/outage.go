package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

const (
	leastLocal = 0.4 // s that local keys last at least: nearly a batch of a hundred
	mostStop   = 0.3 // s that a counter serves without its supply at most
	mostBack   = 4.5 // s from the restart until a key source serves again
)

// outage is what becomes of the creations of a load during an outage and after it.
type outage struct {
	name     string // of the key source
	victim   string // what is killed
	fallback string // the setting

	served     int           // by the key source itself, during the outage
	byFallback int           // likewise
	refused    int           // likewise
	unknown    int           // likewise
	answers    []string      // to what is not served from the kill on, each once: "503, Retry-After 1"
	local      time.Duration // from the kill to the first creation that the key source does not serve; the whole outage when it serves all
	back       time.Duration // from the restart until the key source serves every creation
	returned   bool          // it does so before the end
}

// observe sorts entries by when they were due. Creations that began before the kill, and fail
// by it, belong to neither time.
func observe(entries []loadtest.Entry, w window, byFallback func(code string) bool) *outage {
	o := &outage{local: w.back.Sub(w.lost), returned: true}
	answers := make(map[string]bool)
	for _, entry := range entries {
		own := entry.State == loadtest.Acknowledged && !byFallback(entry.Code)
		switch {
		case entry.At.Before(w.lost):
			continue
		case !entry.At.Before(w.back):
			if o.returned = own; !own {
				o.back = entry.At.Sub(w.back)
			}
		case own:
			o.served++
		default:
			o.local = min(o.local, entry.At.Sub(w.lost))
			o.unserved(entry.State)
		}
		if entry.State != loadtest.Acknowledged {
			answers[refusal(entry.Outcome)] = true
		}
	}
	o.answers = slices.Sorted(maps.Keys(answers))
	return o
}

func (o *outage) unserved(state loadtest.State) {
	switch state {
	case loadtest.Acknowledged:
		o.byFallback++
	case loadtest.Refused:
		o.refused++
	case loadtest.Unknown, loadtest.Unsent, loadtest.Intended:
		o.unknown++
	}
}

// refusal is the answer to a creation that is not served: a status, and when to retry.
func refusal(o loadtest.Outcome) string {
	if o.State != loadtest.Refused {
		return "no answer"
	}
	status, _, _ := strings.Cut(o.Detail, " ")
	if o.RetryAfter == "" {
		return status
	}
	return status + ", Retry-After " + o.RetryAfter
}

// polite reports whether every creation that is not served gets a 503 that says when to retry.
func (o *outage) polite() bool {
	return !slices.ContainsFunc(o.answers, func(answer string) bool { return !strings.HasPrefix(answer, "503, Retry-After ") })
}

// stops reports whether the key source has lost its whole supply and nothing else makes links.
func (o *outage) stops() bool {
	return o.victim != thePostgres && o.victim != evenTickets && o.fallback == "none"
}

// all is how many creations are due during the outage.
func (o *outage) all() int { return o.served + o.byFallback + o.refused + o.unknown }

// String says in a cell what happens during the outage.
func (o *outage) String() string {
	var parts []string
	for i, what := range []string{"served", "by the fallback", "refused", "without an answer"} {
		if n := []int{o.served, o.byFallback, o.refused, o.unknown}[i]; n > 0 {
			parts = append(parts, fmt.Sprintf("%.0f %% %s", 100*float64(n)/float64(o.all()), what))
		}
	}
	return strings.Join(parts, ", ")
}

func (o *outage) answered() string { return strings.Join(o.answers, "; ") }

// again is when the key source serves by itself again. The even tickets alone are not awaited.
func (o *outage) again() string {
	switch {
	case o.victim == evenTickets:
		return unknown
	case !o.returned:
		return "not by the end"
	}
	return tenths(o.back)
}

func tenths(d time.Duration) string { return report.Duration(d.Round(100 * time.Millisecond)) }

// local is how many seconds the key source goes on without its supply and without a fallback.
func (f *found) local() (seconds measure.Series) {
	for _, o := range f.outages {
		if o.stops() {
			seconds = append(seconds, o.local.Seconds())
		}
	}
	return seconds
}

func outageClaims() []experiment.Claim[record] {
	claim := func(kind report.Kind, unit, name, text string, about func(*found, *outage) bool, judge func(*record, []*outage) experiment.Verdict) experiment.Claim[record] {
		return experiment.Claim[record]{Name: name, Text: text, Unit: unit, Kind: kind, Judge: func(r *record) experiment.Verdict {
			some := r.outagesOf(about)
			if len(some) == 0 {
				return experiment.Verdict{}
			}
			return judge(r, some)
		}}
	}
	local := func(a, b *outage) int { return cmp.Compare(a.local, b.local) }
	without := func(how supplied) func(*found, *outage) bool {
		return func(f *found, o *outage) bool { return o.stops() && f.supplied() == how }
	}
	whole := func(_ *found, o *outage) bool { return o.victim != evenTickets } // with the even tickets the odd ones are killed before the restart
	return []experiment.Claim[record]{
		claim(report.Speed, "s", "local keys bridge a moment", fmt.Sprintf("Without their supply, key sources that take keys ahead go on for at least %.1f s with the keys that they hold.", leastLocal),
			without(ahead), func(r *record, some []*outage) experiment.Verdict {
				least := slices.MinFunc(some, local)
				return experiment.AtLeast(leastLocal, least.local.Seconds(), "the shortest time: %s with %s", least.name, tenths(least.local)).Unless(r.unfitSupplies)
			}),
		claim(report.Speed, "s", "a counter stops at once", fmt.Sprintf("Without their supply, the counter in Redis and the tickets go on for at most %.1f s.", mostStop),
			without(perKey), func(r *record, some []*outage) experiment.Verdict {
				most := slices.MaxFunc(some, local)
				return experiment.AtMost(mostStop, most.local.Seconds(), "the longest time: %s with %s", most.name, tenths(most.local)).Unless(r.unfitSupplies)
			}),
		claim(report.Correctness, "creations", "one ticket database is enough", "While one of two ticket databases is down, every creation is served.",
			func(_ *found, o *outage) bool { return o.victim == evenTickets },
			func(_ *record, some []*outage) experiment.Verdict {
				return noneUnserved(some, func(o *outage) int { return o.all() - o.served })
			}),
		claim(report.Correctness, "creations", "the fallback makes every link", "With the default fallback, every creation is served while anything but the database of the links is down.",
			func(f *found, o *outage) bool { return o.fallback == random && whole(f, o) },
			func(_ *record, some []*outage) experiment.Verdict {
				return noneUnserved(some, func(o *outage) int { return o.refused + o.unknown })
			}),
		claim(report.Correctness, "outages", "refusals say when to retry", "Every creation that is not served is refused with 503 and Retry-After.",
			func(_ *found, o *outage) bool { return len(o.answers) > 0 },
			func(_ *record, some []*outage) experiment.Verdict {
				rude := named(some, func(o *outage) bool { return !o.polite() })
				return experiment.None(int64(len(rude)), "in %d of %d outages there are others%s", len(rude), len(some), strings.Join(rude, ""))
			}),
		claim(report.Speed, "s", "each recovers by itself", fmt.Sprintf("Within %.1f s of the restart of what was killed, each key source serves every creation again, without intervention.", mostBack),
			whole, func(r *record, some []*outage) experiment.Verdict {
				worst := slices.MaxFunc(some, func(a, b *outage) int { return cmp.Compare(a.back, b.back) })
				late := named(some, func(o *outage) bool { return !o.returned })
				return experiment.Holds(len(late) == 0 && worst.back.Seconds() <= mostBack, "the last: %s after %s; %d do not serve again by the end%s",
					worst.name, tenths(worst.back), len(late), strings.Join(late, "")).Figures(mostBack, worst.back.Seconds()).
					Unless(strings.TrimSpace(r.unfitSupplies + " " + r.unfitPostgres))
			}),
	}
}

// noneUnserved is the verdict that every creation of the outages is served.
func noneUnserved(some []*outage, unserved func(*outage) int) experiment.Verdict {
	n := 0
	for _, o := range some {
		n += unserved(o)
	}
	return experiment.None(int64(n), "%d creations are not served in %d outages", n, len(some))
}

// outagesOf are the outages that a claim is about, in the order of the key sources.
func (r *record) outagesOf(about func(*found, *outage) bool) (some []*outage) {
	for _, f := range r.found {
		for _, o := range f.outages {
			if about(f, o) {
				some = append(some, o)
			}
		}
	}
	return some
}

// named describes the outages for which bad is true, each after a semicolon.
func named(some []*outage, bad func(*outage) bool) (names []string) {
	for _, o := range some {
		if bad(o) {
			names = append(names, fmt.Sprintf("; %s without %s, FALLBACK=%s (%s)", o.name, o.victim, o.fallback, o.answered()))
		}
	}
	return names
}
