package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"keypool/internal/human"
	"keypool/loadtest/report"
	"keypool/loadtest/scenario"

	"golang.org/x/term"
)

// view shows a run of scenarios while it goes on, and what came of it. Its methods may be
// called concurrently, but for close and verdict, which come last and in this order.
type view interface {
	live(scenario.Live)
	done(*report.Scenario)
	close()
	verdict(r *report.Report, page string) error
}

// newView chooses by where the output goes.
func newView(out output, asJSON bool, scenarios []scenario.Scenario) view {
	if asJSON {
		return &records{w: out.stdout}
	}
	if f, ok := out.stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return newBars(out, scenarios)
	}
	return &lines{output: out, started: time.Now()}
}

// linePeriod is how often a line is written while nothing new happens.
const linePeriod = 5 * time.Second

// lines is the view where there is no terminal.
type lines struct {
	output
	started time.Time

	mu    sync.Mutex
	phase string
	next  time.Time // when the next line is due
}

func (l *lines) live(now scenario.Live) {
	l.mu.Lock()
	defer l.mu.Unlock()
	phase := now.Scenario + " " + now.Phase
	if phase == l.phase && time.Now().Before(l.next) {
		return
	}
	l.phase, l.next = phase, time.Now().Add(linePeriod)
	l.print("%-8s  %3.0f %%  %s%s", now.Scenario, 100*now.Done, now.Phase, details(now, "  "))
}

func (l *lines) done(s *report.Scenario) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.print("%-8s  %s", s.Name, tally(s))
}

// print writes a line; one that cannot be written is no reason to end the run.
func (l *lines) print(format string, args ...any) {
	_, _ = fmt.Fprintf(l.stderr, "%4.0fs  %s\n", time.Since(l.started).Seconds(), fmt.Sprintf(format, args...))
}

func (*lines) close() {}

func (l *lines) verdict(r *report.Report, page string) error { return writeVerdict(l.stdout, r, page) }

// records is the view for machines: one JSON object a line, told apart by its only member.
type records struct {
	mu sync.Mutex
	w  io.Writer
}

func (v *records) live(now scenario.Live) { v.write(map[string]any{"live": now}) }

func (v *records) done(s *report.Scenario) {
	short := *s
	short.Charts, short.Tables = nil, nil // they are in the report
	v.write(map[string]any{"scenario": short})
}

func (v *records) write(record any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	_ = json.NewEncoder(v.w).Encode(record) // who does not read it any more will read the report
}

func (*records) close() {}

func (v *records) verdict(r *report.Report, page string) error {
	return json.NewEncoder(v.w).Encode(map[string]any{
		"verdict": map[string]any{
			"right": r.Right(), "interrupted": r.Interrupted, "not_judged": r.Tally().NotJudged, "seconds": r.Seconds, "page": page,
		},
	})
}

// details is what is known of the load just now.
func details(now scenario.Live, between string) string {
	var b strings.Builder
	add := func(format string, args ...any) { b.WriteString(between + fmt.Sprintf(format, args...)) }
	if now.Rate > 0 {
		add("%.0f/s", now.Rate)
		add("p99 %.1f ms", float64(now.P99.Microseconds())/1000)
	}
	if now.PoolKeys != nil {
		add("pool %d", *now.PoolKeys)
	}
	if now.Runway != nil {
		add("runway %s", human.Duration(now.Runway.Seconds()))
	}
	return b.String()
}

// tally says in a few words what came of a scenario.
func tally(s *report.Scenario) string {
	t := s.Tally()
	text := fmt.Sprintf("%d of %d claims held", t.Held, t.All())
	if t.Failed > 0 {
		text += fmt.Sprintf(", %d FAILED", t.Failed)
	}
	if t.NotJudged > 0 {
		text += fmt.Sprintf(", %d not judged", t.NotJudged)
	}
	if s.Error != "" {
		text += ", it BROKE OFF"
	}
	return text
}

// writeVerdict writes every claim with its verdict, for people.
func writeVerdict(w io.Writer, r *report.Report, page string) error {
	var b strings.Builder
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		fmt.Fprintf(&b, "%s: %s (%.0f s)\n", s.Name, s.Title, s.Seconds)
		for _, c := range s.Claims {
			fmt.Fprintf(&b, "  %-10s  %s: %s\n", word(c.Verdict), c.Name, c.Why)
		}
		if s.Error != "" {
			fmt.Fprintf(&b, "  BROKE OFF   %s\n", s.Error)
		}
	}
	switch {
	case r.Interrupted:
		b.WriteString("ended early; ")
	case r.Right() && r.Tally().NotJudged > 0:
		fmt.Fprintf(&b, "nothing failed, %d of %d claims not judged; ", r.Tally().NotJudged, r.Tally().All())
	case r.Right():
		b.WriteString("all right; ")
	default:
		b.WriteString("NOT RIGHT; ")
	}
	fmt.Fprintf(&b, "the report is %s\n", page)
	_, err := io.WriteString(w, b.String())
	return err
}

// word is a verdict as it stands out where it has to.
func word(v report.Verdict) string {
	if v == report.Failed {
		return "FAILED"
	}
	return string(v)
}
