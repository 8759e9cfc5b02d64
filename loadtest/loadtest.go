// Package loadtest judges a running URL shortener through HTTP only. It creates links at a
// constant rate and then reads every link back. A journal records the intent of each creation
// before the request and the outcome after the request. The package imports no package of the
// product and trusts no figure that the service reports.
//
// Vocabulary: a creation is one POST for a URL that no other creation uses. An entry is the
// record of one creation in the [Journal]. A creation is acknowledged, refused, unknown or
// unsent ([State]). An acknowledged link is lost when its code leads nowhere. It is wrong when
// its code leads to another URL. A code is issued twice when it was acknowledged for two creations.
//
// Invariants:
//
//   - no request is sent before its intent is in the journal;
//   - a creation is sent at most once, because a retry would hide a duplicate;
//   - a request that was due and could not be sent counts as a failure.
//
// The package does not use the load generator vegeta, for two reasons. First, vegeta measures a
// request from the moment at which one of its workers is free, so its latencies omit the wait for a
// worker. This error is called coordinated omission (G. Tene, "How NOT to measure latency"). Second,
// vegeta cannot record an intent before each request.
package loadtest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// Defaults for parameters that are 0. DefaultInFlight is so large that a short stall of the disk or
// the machine leaves no request unsent. It is a little less than the number of creations that a server
// queues (4,096).
const (
	DefaultInFlight = 4000
	DefaultTimeout  = 10 * time.Second
)

// noRoom is the detail of a creation that was not sent because too many requests were in flight.
// The cause may be the service or a slow machine.
const noRoom = "too many requests in flight"

// Load creates links and records them in a journal. Its methods may be called concurrently.
type Load struct {
	client   *Client
	journal  *Journal
	inFlight int
}

// NewLoad returns a load with at most inFlight requests at a time; 0 means [DefaultInFlight]. The
// caller closes client and journal.
func NewLoad(client *Client, journal *Journal, inFlight int) *Load {
	return &Load{client: client, journal: journal, inFlight: cmp.Or(inFlight, DefaultInFlight)}
}

// Run sends requests by the schedule s until s or ctx ends. The end of ctx cancels no request.
// Run returns when the last request has its outcome. It adds the results to r.
//
// If the journal cannot be written, Run ends early and returns the error. It returns no other error.
func (l *Load) Run(ctx context.Context, s Schedule, r *Recorder) error {
	return pace(ctx, s, l.inFlight, r, func(ctx context.Context, answered func(State)) error {
		_, err := l.record(func(url string) Outcome {
			o := l.client.Create(ctx, url)
			answered(o.State)
			return o
		})
		return err
	}, func() error {
		_, err := l.record(func(string) Outcome { return Outcome{State: Unsent, Detail: noRoom} })
		return err
	})
}

// One creates one link and returns its entry. It fails only if the journal cannot be written.
func (l *Load) One(ctx context.Context) (Entry, error) {
	return l.record(func(url string) Outcome { return l.client.Create(ctx, url) })
}

// record writes the intent of a creation, calls create, and writes the outcome.
func (l *Load) record(create func(url string) Outcome) (Entry, error) {
	entry, err := l.journal.Intend()
	if err != nil {
		return entry, err
	}
	entry.Outcome = create(entry.URL)
	return entry, l.journal.Settle(entry.N, entry.Outcome)
}

// Verdict is the result of a run: how the requests were answered, and what was wrong with the
// links when they were read back.
type Verdict struct {
	Figures
	Findings
}

// Passed reports whether at least one link was acknowledged, every acknowledged link was read back,
// no request failed and no link is broken. The findings may cover more links than the figures, such as the links of a warm-up.
func (v Verdict) Passed() bool {
	return v.Acknowledged > 0 && v.Checked >= v.Acknowledged && v.Failed() == 0 && v.Broken() == 0
}

// WriteText writes the verdict as text, one figure per line.
func (v Verdict) WriteText(w io.Writer) error {
	var b strings.Builder
	line := func(name string, n int64) { fmt.Fprintf(&b, "%-14s%d\n", name, n) }
	line("sent", v.Sent)
	line("acknowledged", v.Acknowledged)
	line("refused", v.Refused)
	line("unknown", v.Unknown)
	line("unsent", v.Unsent)
	if v.Latency != (Latency{}) {
		fmt.Fprintf(&b, "%-14s%v\n", "latency", v.Latency)
	}
	line("read back", v.Checked)
	line("lost", v.Lost)
	line("wrong", v.Wrong)
	line("twice", v.Twice)
	line("unread", v.Unread)
	for _, report := range v.Reports {
		b.WriteString("  " + report + "\n")
	}
	switch {
	case v.Passed():
		b.WriteString("PASS: every creation was acknowledged, and every link leads to its URL\n")
	case v.Failed()+v.Broken() == 0:
		fmt.Fprintf(&b, "FAIL: %d links were acknowledged, and %d of them were read back\n", v.Acknowledged, v.Checked)
	default:
		fmt.Fprintf(&b, "FAIL: %d creations failed, and %d links are not as promised\n", v.Failed(), v.Broken())
	}
	_, err := io.WriteString(w, b.String())
	return err
}
