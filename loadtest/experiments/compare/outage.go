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

// impolite counts the answers to creations that are not served, except a 503 that says when to retry.
func (o *outage) impolite() (n float64) {
	for _, answer := range o.answers {
		if !strings.HasPrefix(answer, "503, Retry-After ") {
			n++
		}
	}
	return n
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

// away is how many seconds after the restart the key source serves every creation again, at least
// those of the load when it never does.
func (o *outage) away() float64 {
	if !o.returned {
		return max(o.back, loadAfter).Seconds()
	}
	return o.back.Seconds()
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

// outageClaim is a claim on the worst of some outages.
type outageClaim struct {
	kind             report.Kind
	unit, name, text string
	about            func(*found, *outage) bool
	value            func(*outage) float64
	bound            float64
	least            bool // the bound is a lower one
}

func outageClaims() (all []experiment.Claim[record]) {
	without := func(how supplied) func(*found, *outage) bool {
		return func(f *found, o *outage) bool { return o.stops() && f.supplied() == how }
	}
	whole := func(_ *found, o *outage) bool { return o.victim != evenTickets } // with the even tickets the odd ones are killed before the restart
	local := func(o *outage) float64 { return o.local.Seconds() }
	for _, c := range []outageClaim{
		{
			kind: report.Speed, unit: "s", name: "local keys bridge a moment", about: without(ahead), value: local, bound: leastLocal, least: true,
			text: fmt.Sprintf("Without their supply, key sources that take keys ahead go on for at least %.1f s with the keys that they hold.", leastLocal),
		},
		{
			kind: report.Speed, unit: "s", name: "a counter stops at once", about: without(perKey), value: local, bound: mostStop,
			text: fmt.Sprintf("Without their supply, the counter in Redis and the tickets go on for at most %.1f s.", mostStop),
		},
		{
			kind: report.Availability, unit: "creations", name: "one ticket database is enough",
			text:  "While one of two ticket databases is down, every creation is served.",
			about: func(_ *found, o *outage) bool { return o.victim == evenTickets },
			value: func(o *outage) float64 { return float64(o.all() - o.served) },
		},
		{
			kind: report.Availability, unit: "creations", name: "the fallback makes every link",
			text:  "With the default fallback, every creation is served while anything but the database of the links is down.",
			about: func(f *found, o *outage) bool { return o.fallback == random && whole(f, o) },
			value: func(o *outage) float64 { return float64(o.refused + o.unknown) },
		},
		{
			kind: report.Availability, unit: "other answers", name: "refusals say when to retry",
			text:  "Every creation that is not served is refused with 503 and Retry-After.",
			about: func(_ *found, o *outage) bool { return len(o.answers) > 0 }, value: (*outage).impolite,
		},
		{
			kind: report.Speed, unit: "s", name: "each recovers by itself", about: whole, value: (*outage).away, bound: mostBack,
			text: fmt.Sprintf("Within %.1f s of the restart of what was killed, each key source serves every creation again, without intervention.", mostBack),
		},
	} {
		all = append(all, experiment.Claim[record]{Name: c.name, Text: c.text, Unit: c.unit, Kind: c.kind, Judge: c.judge})
	}
	return all
}

func (c outageClaim) judge(r *record) experiment.Verdict {
	some := r.outagesOf(c.about)
	if len(some) == 0 {
		return experiment.Verdict{}
	}
	order := func(a, b *outage) int { return cmp.Compare(c.value(a), c.value(b)) }
	worst, verdict := slices.MaxFunc(some, order), experiment.AtMost
	if c.least {
		worst, verdict = slices.MinFunc(some, order), experiment.AtLeast
	}
	return verdict(c.bound, c.value(worst), "the worst of %d outages: %s without %s, FALLBACK=%s, goes on for %s and serves again after %s; %s; not served: %s", len(some),
		worst.name, worst.victim, worst.fallback, tenths(worst.local), worst.again(), worst, worst.answered())
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
