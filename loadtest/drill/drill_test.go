//go:build drill

package drill

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// row is one fault of the matrix.
type row struct {
	n          string // its number, with a letter where a fault takes several drills; a name for what is no fault
	fault      string
	injected   string // how
	run        func(*drill)
	control    control
	alone      bool // it measures latencies: nothing else runs beside it
	failpoints bool // run sets KEYPOOL_FAILPOINTS for programs of its own
}

// control is how the protection of a row is removed. The same run must then end with the
// finding that the protection prevents.
type control struct {
	without  []string // the controls that every program is built with (package controls)
	settings []string // settings that replace those of the row, for every program
	finds    string   // what a finding must match: any other failure does not count
}

// none says that a row has no control: nothing in it stands for a protection.
func (c *control) none() bool { return c.finds == "" }

// drill is one run of a row: against the fault, or as its negative control. It is the
// testing.TB of all that happens in it. What goes wrong in a control is kept as a
// finding and does not fail the test.
type drill struct {
	testing.TB
	control  *control // nil against the fault
	programs string   // the directory of those that this run uses
	scale    float64

	mu       sync.Mutex
	findings []string
	settled  bool // the control has ended: what goes wrong from now on fails the test
	result   result
}

// newDrill makes the run of r against its fault or, with asControl, as its control.
func newDrill(t testing.TB, r *row, asControl bool) *drill {
	t.Helper()
	d := &drill{TB: t, programs: programs.shipped, scale: *scale}
	if asControl {
		d.control = &r.control
		d.scale = min(d.scale, controlScale)
	}
	if asControl || r.failpoints {
		d.programs = mustBuild(t, d.control)
	}
	return d
}

// mustBuild returns the directory of the programs with failpoints that the control c needs, or
// that have every protection when c is nil.
func mustBuild(t testing.TB, c *control) string {
	t.Helper()
	var without []string
	if c != nil {
		without = c.without
	}
	dir, err := programs.drill.Build(t.Context(), without, "shortener", "kgs")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// controlScale is the most that is done of a control: one finding is enough.
const controlScale = 0.1

// times is n at the scale of this run, at least 1.
func (d *drill) times(n int) int { return max(1, int(float64(n)*d.scale)) }

// lasting is length at the scale of this run.
func (d *drill) lasting(length time.Duration) time.Duration {
	return time.Duration(float64(length) * d.scale)
}

// Errorf, Error, Fatalf, Fatal, Fail and FailNow are those of testing.TB.
func (d *drill) Errorf(format string, args ...any) { d.Helper(); d.find(fmt.Sprintf(format, args...)) }
func (d *drill) Error(args ...any)                 { d.Helper(); d.find(fmt.Sprint(args...)) }
func (d *drill) Fail()                             { d.Helper(); d.find("failed") }

func (d *drill) Fatalf(format string, args ...any) {
	d.Helper()
	d.find(fmt.Sprintf(format, args...))
	d.end()
}

func (d *drill) Fatal(args ...any) { d.Helper(); d.find(fmt.Sprint(args...)); d.end() }
func (d *drill) FailNow()          { d.Helper(); d.find("failed"); d.end() }

func (d *drill) find(text string) {
	d.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.findings = append(d.findings, text)
	if d.control == nil || d.settled {
		d.TB.Error(text)
		return
	}
	d.Logf("finding: %s", text)
}

// end ends the goroutine, which is that of the run.
func (d *drill) end() {
	if d.control == nil || d.settled {
		d.TB.FailNow()
	}
	runtime.Goexit()
}

// provoke runs a control to its end and reports whether it found what it had to.
func (d *drill) provoke(run func(*drill)) (caught bool) {
	done := make(chan struct{})
	go func() { // a finding may end the goroutine, but not the test
		defer close(done)
		run(d)
	}()
	<-done
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled = true
	finds := regexp.MustCompile(d.control.finds)
	for _, text := range d.findings {
		if finds.MatchString(text) {
			return true
		}
	}
	return false
}

// TestDrill runs the matrix, or the rows that -drill.row names.
func TestDrill(t *testing.T) {
	var chosen []row
	for _, r := range rows() {
		if selected(r.n) {
			chosen = append(chosen, r)
			mustBuild(t, &r.control) // before any row runs, because a build takes the processors
		}
	}
	for _, r := range chosen {
		line := table.add(r)
		t.Run(r.n, func(t *testing.T) {
			if !r.alone {
				t.Parallel()
			}
			start := time.Now()
			against(t, &r, line)
			line.took = time.Since(start)
		})
	}
}

// against runs r against its fault and then its control, and enters what came of both.
func against(t *testing.T, r *row, line *line) {
	line.verdict = "FAILS"
	holds := t.Run("fault", func(t *testing.T) {
		d := newDrill(t, r, false)
		defer func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			line.result, line.findings = d.result, d.findings
		}()
		r.run(d)
	})
	if holds {
		line.verdict = "holds"
	}
	if r.control.none() {
		return
	}
	line.control = "NOT CAUGHT"
	caught := t.Run("control", func(t *testing.T) {
		d := newDrill(t, r, true)
		if !d.provoke(r.run) {
			t.Errorf("the control was not caught: no finding matches %q in\n%s", r.control.finds, strings.Join(d.findings, "\n"))
		}
	})
	if caught {
		line.control = "caught"
	}
}

// selected reports whether -drill.row names row n, with or without its letter.
func selected(n string) bool {
	if *only == "" {
		return true
	}
	for name := range strings.SplitSeq(*only, ",") {
		if name == n || name == strings.TrimRight(n, "abcdefgh") {
			return true
		}
	}
	return false
}

const (
	poll    = 10 * time.Millisecond
	patient = time.Minute // for what takes seconds at the worst
)

// await waits until ok is true, and fails the test when that takes longer than limit.
func await(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(limit)
	for !ok() {
		select {
		case <-time.After(poll):
		case <-deadline:
			t.Fatalf("after %v still not: %s", limit, what)
		}
	}
}

// pass lets time go by that is part of the drill, such as how long an outage lasts.
func pass(t testing.TB, length time.Duration) {
	t.Helper()
	select {
	case <-time.After(length):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
