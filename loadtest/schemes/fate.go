package schemes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"keypool/loadtest"
)

// fate is what became of the creations of a load while something was away, and after it.
type fate struct {
	served   int // while it was away, from the scheme itself
	fallback int // likewise, from the fallback
	refused  int
	unknown  int
	answers  []string      // to what was not served from the kill on, each once: "503, Retry-After 1"
	local    time.Duration // from the kill until the first creation that the scheme itself did not serve; all the time when it served all
	back     time.Duration // from the restart until the scheme itself served every creation
	returned bool          // it did so before the end
}

// fateOf judges entries by when they were meant to begin. What began before the kill and
// failed by it belongs to neither time.
func fateOf(entries []loadtest.Entry, lost, back time.Time, byFallback func(code string) bool) fate {
	f := fate{local: back.Sub(lost), returned: true}
	said := make(map[string]bool)
	first := true
	for _, entry := range entries {
		own := entry.State == loadtest.Acknowledged && !byFallback(entry.Code)
		switch {
		case entry.At.Before(lost):
		case !entry.At.Before(back):
			if f.returned = own; !own {
				f.back = entry.At.Sub(back)
			}
		default:
			f.count(entry, own)
			if !own && first {
				f.local, first = entry.At.Sub(lost), false
			}
		}
		if entry.State != loadtest.Acknowledged && !entry.At.Before(lost) {
			said[refusal(entry)] = true
		}
	}
	for text := range said {
		f.answers = append(f.answers, text)
	}
	slices.Sort(f.answers)
	return f
}

func (f *fate) count(entry loadtest.Entry, own bool) {
	switch {
	case own:
		f.served++
	case entry.State == loadtest.Acknowledged:
		f.fallback++
	case entry.State == loadtest.Refused:
		f.refused++
	default:
		f.unknown++
	}
}

// refusal is what was answered to what was not served: a status, and when to come again.
func refusal(entry loadtest.Entry) string {
	if entry.State != loadtest.Refused {
		return "no answer"
	}
	status, _, _ := strings.Cut(entry.Detail, " ")
	if entry.RetryAfter == "" {
		return status
	}
	return status + ", Retry-After " + entry.RetryAfter
}

// polite says that whatever was not served got a 503 that told when to come again.
func (f fate) polite() bool {
	return !slices.ContainsFunc(f.answers, func(answer string) bool { return !strings.HasPrefix(answer, "503, Retry-After ") })
}

// all is how many creations there were while it was away.
func (f fate) all() int { return f.served + f.fallback + f.refused + f.unknown }

// String says in a cell what happened while it was away.
func (f fate) String() string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%.0f %% %s", 100*float64(n)/float64(f.all()), what))
		}
	}
	add(f.served, "served")
	add(f.fallback, "by the fallback")
	add(f.refused, "refused")
	add(f.unknown, "without an answer")
	return strings.Join(parts, ", ")
}
