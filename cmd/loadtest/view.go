package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/report"

	"golang.org/x/term"
)

// view shows the progress of a run and its verdict. Its methods may be called concurrently,
// except close and verdict, which come last and in this order.
type view interface {
	log(line string)
	live(experiment.Live)
	done(e *report.Experiment, strict bool)
	close()
	verdict(r *report.Report, page string) error
}

// newView chooses by where the output goes.
func newView(out output, asJSON bool, all []*experiment.Experiment) view {
	if asJSON {
		return &records{w: out.stdout}
	}
	if f, ok := out.stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) && len(all) <= maxBars {
		return newBars(out, all)
	}
	return &lines{output: out, started: time.Now()}
}

// linePeriod is how often a line is written while the phase does not change.
const linePeriod = 5 * time.Second

// lines is the view where there is no terminal.
type lines struct {
	output
	started time.Time

	mu    sync.Mutex
	phase string
	next  time.Time // when the next line is due
}

func (l *lines) log(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.print("%s", line)
}

func (l *lines) live(now experiment.Live) {
	l.mu.Lock()
	defer l.mu.Unlock()
	phase := now.Experiment + " " + now.Phase
	if phase == l.phase && time.Now().Before(l.next) {
		return
	}
	l.phase, l.next = phase, time.Now().Add(linePeriod)
	l.print("%-14s  %3.0f %%  %s%s", now.Experiment, 100*now.Done, now.Phase, details(now, "  "))
}

func (l *lines) done(e *report.Experiment, strict bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.print("%-14s  %s", e.Name, e.Line(strict))
}

// print writes a line. A line that cannot be written does not end the run.
func (l *lines) print(format string, args ...any) {
	_, _ = fmt.Fprintf(l.stderr, "%4.0fs  %s\n", time.Since(l.started).Seconds(), fmt.Sprintf(format, args...))
}

func (*lines) close() {}

func (l *lines) verdict(r *report.Report, page string) error {
	return writeVerdict(l.stdout, r, page)
}

// writeVerdict prints every experiment, what did not hold, and where the report is.
func writeVerdict(w io.Writer, r *report.Report, page string) error {
	if err := r.WriteText(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "The report is %s.\n", page)
	return err
}

// records is the view for programs: one JSON object a line, with one member that names what
// it is.
type records struct {
	mu sync.Mutex
	w  io.Writer
}

func (v *records) log(line string)          { v.write(map[string]any{"log": line}) }
func (v *records) live(now experiment.Live) { v.write(map[string]any{"live": now}) }

func (v *records) done(e *report.Experiment, _ bool) {
	short := *e
	short.Charts, short.Tables = nil, nil // they are in the report
	v.write(map[string]any{"experiment": short})
}

func (v *records) write(record any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	_ = json.NewEncoder(v.w).Encode(record) // the report holds the same
}

func (*records) close() {}

func (v *records) verdict(r *report.Report, page string) error {
	return json.NewEncoder(v.w).Encode(map[string]any{
		"verdict": map[string]any{"passed": r.Passed(), "interrupted": r.Interrupted, "seconds": r.Seconds, "page": page},
	})
}

// details are the figures of the load at this moment.
func details(now experiment.Live, between string) string {
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
		add("runway %v", now.Runway.Round(time.Second))
	}
	return b.String()
}
