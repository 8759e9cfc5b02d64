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
	leastLocal = 0.4 // least time in seconds that local keys must last; at outageRate, 80 keys last this long
	mostStop   = 0.3 // longest time in seconds for which a counter may serve creations without its supply
	mostBack   = 3   // longest time in seconds from the field answeredAt of a window to the recovery
)

// noAnswer stands for the answer to a creation that got no answer.
const noAnswer = "no answer"

// outage holds what happens to the creations of a load during an outage and after it.
type outage struct {
	name     string // the name of the key source
	victim   string // the component that is killed
	fallback string // the value of FALLBACK

	served     int           // creations that the key source served during the outage
	byFallback int           // creations that the fallback served during the outage
	refused    int           // creations that were refused during the outage
	unknown    int           // creations without an answer during the outage
	answers    []string      // the different answers to creations that failed during or after the outage, such as "503, Retry-After 1"
	local      time.Duration // time from the kill to the first creation that the key source does not serve, or to the restart
	back       time.Duration // time from window.answeredAt until the key source serves every creation
	returned   bool          // the key source serves every creation again before the load ends, or the component was not restarted
}

// observe summarises the creations of a load. It assigns each creation to a period by the time directly before the client
// sent it (the field At):
//
//   - before the kill: observe ignores the creation. The kill may have interrupted it, so it does not show how the key
//     source works without its supply;
//   - from the kill to the restart: the creation belongs to the outage;
//   - later: the creation belongs to the time after the outage. If the component was not restarted, observe ignores the
//     creation, because the next outage may have caused its failure.
func observe(entries []loadtest.Entry, w window, byFallback func(code string) bool) *outage {
	o := &outage{local: w.back.Sub(w.lost), returned: true}
	answers := make(map[string]bool)
	for _, entry := range entries {
		own := entry.State == loadtest.Acknowledged && !byFallback(entry.Code)
		switch {
		case entry.At.Before(w.lost):
			continue
		case !entry.At.Before(w.back):
			if w.answeredAt.IsZero() {
				continue
			}
			if o.returned = own; !own {
				o.back = max(0, entry.At.Sub(w.answeredAt))
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

// unserved counts a creation that the key source did not serve during the outage.
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

// refusal describes the answer to a creation that is not served: its status with the Retry-After header, or noAnswer if
// the creation was not refused.
func refusal(o loadtest.Outcome) string {
	if o.State != loadtest.Refused {
		return noAnswer
	}
	status, _, _ := strings.Cut(o.Detail, " ")
	if o.RetryAfter == "" {
		return status
	}
	return status + ", Retry-After " + o.RetryAfter
}

// wrongRefusals counts the different refusals, except a 503 that says when to retry.
func (o *outage) wrongRefusals() (n float64) {
	for _, answer := range o.answers {
		if answer != noAnswer && !strings.HasPrefix(answer, "503, Retry-After ") {
			n++
		}
	}
	return n
}

// stops reports whether the key source has neither its supply nor a fallback during the outage, while the database of
// the links runs.
func (o *outage) stops() bool {
	return o.victim != thePostgres && o.victim != evenTickets && o.fallback == "none"
}

// all returns the number of creations that belong to the outage.
func (o *outage) all() int { return o.served + o.byFallback + o.refused + o.unknown }

// String describes what happened to the creations during the outage, for a table cell.
func (o *outage) String() string {
	var parts []string
	for i, what := range []string{"served", "by the fallback", "refused", "without an answer"} {
		if n := []int{o.served, o.byFallback, o.refused, o.unknown}[i]; n > 0 {
			parts = append(parts, fmt.Sprintf("%.0f %% %s", 100*float64(n)/float64(o.all()), what))
		}
	}
	return strings.Join(parts, ", ")
}

// answered returns the different answers to failed creations, or "none" if no creation failed.
func (o *outage) answered() string { return cmp.Or(strings.Join(o.answers, "; "), "none") }

// again describes the time from window.answeredAt until the key source serves every creation again. This time is not
// measured if only the ticket database with even numbers was down.
func (o *outage) again() string {
	switch {
	case o.victim == evenTickets:
		return unknown
	case !o.returned:
		return "not before the load ended"
	}
	return tenths(o.back)
}

// recovered says in a clause when the key source served every creation again. It returns "" if this time is not measured.
func (o *outage) recovered() string {
	switch {
	case o.victim == evenTickets:
		return ""
	case !o.returned:
		return ", and did not serve every creation again before the load ended"
	}
	return ", and served every creation again " + tenths(o.back) + " after the restarted component answered"
}

// recovery returns the seconds from window.answeredAt until the key source serves every creation again. If the key source
// does not recover, recovery returns at least the duration of the load after the restart.
func (o *outage) recovery() float64 {
	if !o.returned {
		return max(o.back, loadAfter).Seconds()
	}
	return o.back.Seconds()
}

func tenths(d time.Duration) string { return report.Duration(d.Round(100 * time.Millisecond)) }

// local returns how many seconds the key source works without its supply, for each outage for which stops returns true.
func (f *found) local() (seconds measure.Series) {
	for _, o := range f.outages {
		if o.stops() {
			seconds = append(seconds, o.local.Seconds())
		}
	}
	return seconds
}

// outageClaim is a claim about some outages, of which it judges the worst.
type outageClaim struct {
	kind             report.Kind
	unit, name, text string
	concerns         func(*found, *outage) bool // reports whether the claim is about the outage
	value            func(*outage) float64
	bound            float64
	least            bool // bound is a lower bound
}

func outageClaims() (all []experiment.Claim[record]) {
	without := func(how supplied) func(*found, *outage) bool {
		return func(f *found, o *outage) bool { return o.stops() && f.supplied() == how }
	}
	// whole returns false for an outage of only the even ticket database. This outage does not end with a restart: it ends
	// when the other ticket database is killed too.
	whole := func(_ *found, o *outage) bool { return o.victim != evenTickets }
	local := func(o *outage) float64 { return o.local.Seconds() }
	for _, c := range []outageClaim{
		{
			kind: report.Speed, unit: "s", name: "local keys serve creations during an outage", concerns: without(ahead), value: local, bound: leastLocal, least: true,
			text: fmt.Sprintf("A key source that takes keys in batches serves creations for at least %.1f s after its supply (Redis or the key service) is killed.", leastLocal),
		},
		{
			kind: report.Speed, unit: "s", name: "counters stop without their supply", concerns: without(perKey), value: local, bound: mostStop,
			text: fmt.Sprintf("The key source redis-incr serves creations for at most %.1[1]f s after Redis is killed. The key source ticket serves creations for at most %.1[1]f s after both ticket databases are killed.", mostStop),
		},
		{
			kind: report.Availability, unit: "creations not served", name: "one ticket database is enough",
			text:     "While one of the two ticket databases is down, every creation with the key source ticket is served.",
			concerns: func(_ *found, o *outage) bool { return o.victim == evenTickets },
			value:    func(o *outage) float64 { return float64(o.all() - o.served) },
		},
		{
			kind: report.Availability, unit: "creations not served", name: "no creation fails with a fallback",
			text:     "With the default fallback, every creation is served while any component except the database of the links is down.",
			concerns: func(f *found, o *outage) bool { return o.fallback == random && whole(f, o) },
			value:    func(o *outage) float64 { return float64(o.refused + o.unknown) },
		},
		{
			kind: report.Availability, unit: "creations without an answer", name: "every creation is answered",
			text:     "Without a fallback, every creation is answered while a component is down.",
			concerns: func(f *found, o *outage) bool { return o.fallback != random && whole(f, o) }, value: func(o *outage) float64 { return float64(o.unknown) },
		},
		{
			kind: report.Correctness, unit: "other answers", name: "refusals say when to retry",
			text:     "Every refusal of a creation has status 503 and a Retry-After header.",
			concerns: func(_ *found, o *outage) bool { return len(o.answers) > 0 }, value: (*outage).wrongRefusals,
		},
		{
			kind: report.Speed, unit: "s", name: "every key source recovers", concerns: whole, value: (*outage).recovery, bound: mostBack,
			text: fmt.Sprintf("After a killed component is restarted and answers again, each key source serves every creation within %d s, without intervention.", mostBack),
		},
	} {
		all = append(all, experiment.Claim[record]{Name: c.name, Text: c.text, Unit: c.unit, Kind: c.kind, Judge: c.judge})
	}
	return all
}

func (c outageClaim) judge(r *record) experiment.Verdict {
	some := r.outagesOf(c.concerns)
	if len(some) == 0 {
		return experiment.Verdict{}
	}
	order := func(a, b *outage) int { return cmp.Compare(c.value(a), c.value(b)) }
	worst, verdict := slices.MaxFunc(some, order), experiment.AtMost
	if c.least {
		worst, verdict = slices.MinFunc(some, order), experiment.AtLeast
	}
	return verdict(c.bound, c.value(worst), "the worst of %d outages is that of the key source %s with FALLBACK=%s; this component was killed: %s; "+
		"the key source served every creation for %s after the kill%s; creations during the outage: %s; answers to creations that failed during or after the outage: %s",
		len(some), worst.name, worst.fallback, worst.victim, tenths(worst.local), worst.recovered(), worst, worst.answered())
}

// outagesOf returns the outages for which wanted returns true, in the order of the key sources.
func (r *record) outagesOf(wanted func(*found, *outage) bool) (some []*outage) {
	for _, f := range r.found {
		for _, o := range f.outages {
			if wanted(f, o) {
				some = append(some, o)
			}
		}
	}
	return some
}
