package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/report"
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
	first := true
	for _, entry := range entries {
		own := entry.State == loadtest.Acknowledged && !byFallback(entry.Code)
		switch {
		case entry.At.Before(w.lost):
			continue
		case !entry.At.Before(w.back):
			if o.returned = own; !own {
				o.back = entry.At.Sub(w.back)
			}
		default:
			o.count(entry.State, own)
			if !own && first {
				o.local, first = entry.At.Sub(w.lost), false
			}
		}
		if entry.State != loadtest.Acknowledged {
			answers[refusal(entry.Outcome)] = true
		}
	}
	o.answers = slices.Sorted(maps.Keys(answers))
	return o
}

func (o *outage) count(state loadtest.State, own bool) {
	switch {
	case own:
		o.served++
	case state == loadtest.Acknowledged:
		o.byFallback++
	case state == loadtest.Refused:
		o.refused++
	default:
		o.unknown++
	}
}

// stops reports whether the key source has lost its whole supply and nothing else makes links.
func (o *outage) stops() bool {
	return o.victim != thePostgres && o.victim != evenTickets && o.fallback == "none"
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

// all is how many creations are due during the outage.
func (o *outage) all() int { return o.served + o.byFallback + o.refused + o.unknown }

// String says in a cell what happens during the outage.
func (o *outage) String() string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%.0f %% %s", 100*float64(n)/float64(o.all()), what))
		}
	}
	add(o.served, "served")
	add(o.byFallback, "by the fallback")
	add(o.refused, "refused")
	add(o.unknown, "without an answer")
	return strings.Join(parts, ", ")
}

func (o *outage) answered() string {
	if len(o.answers) == 0 {
		return unknown
	}
	return strings.Join(o.answers, "; ")
}

// lasting is how long the key source itself goes on.
func (o *outage) lasting() string {
	if o.served == o.all() {
		return "the whole outage"
	}
	return tenths(o.local)
}

// again is when it serves by itself again.
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
