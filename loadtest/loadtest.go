// Package loadtest judges a running URL shortener over HTTP alone. It makes links at a
// constant rate, writes each intent to a journal before the request and each outcome after
// it, and then reads every link back. It imports no package of the product and trusts no
// figure that the service reports.
//
// Vocabulary: a creation is one POST for a URL that no other creation uses. An entry is the
// record of one creation in the [Journal]. A creation is acknowledged, refused, unknown or
// unsent ([State]). An acknowledged link is lost when its code leads nowhere, wrong when it
// leads elsewhere, and twice when its code was acknowledged for another creation too.
//
// Invariants:
//
//   - no request is sent before its intent is in the journal;
//   - a creation is sent at most once, because a retry would hide a duplicate;
//   - a request that was due and could not be sent counts as a failure.
//
// The pacer is the package's own. That of vegeta measures from the moment at which one of its
// workers is free and waits silently when none is, which is coordinated omission (G. Tene, "How
// NOT to measure latency"); and it has no place for an intent before each request.
package loadtest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// Defaults for what a caller leaves at zero. The number of requests in flight is large enough
// that a short stall of the disk or the machine costs none; the queue of a server holds as many.
const (
	DefaultInFlight = 4000
	DefaultTimeout  = 10 * time.Second
)

// noRoom is the detail of a creation that was not sent, which need not be the fault of the
// service.
const noRoom = "too many requests in flight"

// Load makes links and keeps the journal. Its methods may be called concurrently.
type Load struct {
	client   *Client
	journal  *Journal
	inFlight int
}

// NewLoad makes a load of at most inFlight requests at a time, 0 for [DefaultInFlight]. The
// caller closes client and journal.
func NewLoad(client *Client, journal *Journal, inFlight int) *Load {
	return &Load{client: client, journal: journal, inFlight: cmp.Or(inFlight, DefaultInFlight)}
}

// Run follows the schedule until its end, or until ctx ends, and returns when the last
// request has its outcome. ctx ends the schedule and no request. The results are added to r.
//
// The only error is that the journal cannot be written. The run then ends early.
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

// One makes one link and returns its entry. The error is that the journal cannot be written.
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

// Verdict is the result of a run: how requests were answered, and what was found when their
// links were read back.
type Verdict struct {
	Figures
	Findings
}

// Passed reports whether every request was acknowledged and every link is as promised. Without
// any link it is false. The findings may cover more links than the figures.
func (v Verdict) Passed() bool {
	return v.Acknowledged > 0 && v.Checked >= v.Acknowledged && v.Failed() == 0 && v.Broken() == 0
}

// WriteText writes the verdict for people, one figure a line.
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
		b.WriteString("PASS: every creation was acknowledged, and every link leads where it should\n")
	case v.Failed()+v.Broken() == 0:
		fmt.Fprintf(&b, "FAIL: %d links were acknowledged, and %d of them were read back\n", v.Acknowledged, v.Checked)
	default:
		fmt.Fprintf(&b, "FAIL: %d creations failed, and %d links are not as promised\n", v.Failed(), v.Broken())
	}
	_, err := io.WriteString(w, b.String())
	return err
}
