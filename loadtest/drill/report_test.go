//go:build drill

package drill

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"keypool/loadtest"
)

// result is what a run of a row came to. The traffic, the judge and the audit fill it.
type result struct {
	injected  int               // how often the fault was
	judged    loadtest.Figures  // of the creations that were judged
	findings  loadtest.Findings // of the judge
	slowest   time.Duration     // of all creations
	abandoned map[string]int64  // by reason, as the last audit says
	notes     []string
}

// struck counts n more times that the fault was injected.
func (d *drill) struck(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.result.injected += n
}

// note adds a figure to the verdict that has no column.
func (d *drill) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.result.notes = append(d.result.notes, fmt.Sprintf(format, args...))
}

// waited enters the latencies that some traffic met.
func (d *drill) waited(l loadtest.Latency) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.result.slowest = max(d.result.slowest, l.Max)
}

// judged enters a verdict; where there are several, the fullest and the worst count.
func (d *drill) judged(f loadtest.Figures, found loadtest.Findings) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.Acknowledged > d.result.judged.Acknowledged {
		d.result.judged = f
	}
	worst := &d.result.findings
	worst.Lost = max(worst.Lost, found.Lost)
	worst.Wrong = max(worst.Wrong, found.Wrong)
	worst.Twice = max(worst.Twice, found.Twice)
}

// audited enters the accounts as they are now.
func (d *drill) audited(a accounts) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.result.abandoned = a.Abandoned
}

// availability is the share of creations that got their link, in percent.
func availability(f loadtest.Figures) float64 {
	return 100 * float64(f.Acknowledged) / float64(max(1, f.Sent+f.Unsent))
}

// line is one row in the table.
type line struct {
	row      row
	result   result
	findings []string // why it fails
	verdict  string
	control  string // empty for a row without
	took     time.Duration
}

// report is the table of a run. Lines may be added concurrently, each is filled by one.
type report struct {
	mu    sync.Mutex
	lines []*line
}

func (r *report) add(of row) *line {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &line{row: of, verdict: "did not run"}
	r.lines = append(r.lines, l)
	return l
}

// print writes the table to standard output, and to the file that -drill.table names.
func (r *report) print(took time.Duration) error {
	if len(r.lines) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(columns(), "\t"))
	for _, l := range r.lines {
		fmt.Fprintln(w, strings.Join(l.cells(), "\t"))
	}
	if err := w.Flush(); err != nil || *file == "" {
		return err
	}
	out, err := os.Create(*file)
	if err != nil {
		return err
	}
	defer out.Close()
	return r.markdown(out, took)
}

func (r *report) markdown(w io.Writer, took time.Duration) error {
	text := fmt.Sprintf("Run on %s at commit %s, scale %g, in %v.\n\n",
		time.Now().UTC().Format(time.DateOnly), *version, *scale, took.Round(time.Second))
	head := slices.Insert(columns(), 2, "how")
	text += "| " + strings.Join(head, " | ") + " |\n" + strings.Repeat("|---", len(head)) + "|\n"
	for _, l := range r.lines {
		text += "| " + strings.Join(slices.Insert(l.cells(), 2, l.row.injected), " | ") + " |\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

func columns() []string {
	return []string{
		"row", "fault", "injected", "acknowledged", "twice", "lost", "wrong", "abandoned",
		"available", "slowest", "took", "verdict",
	}
}

func (l *line) cells() []string {
	n := func(v int64) string { return fmt.Sprint(v) }
	r := &l.result
	available, slowest := "-", "-"
	if r.judged.Sent > 0 {
		available = fmt.Sprintf("%.2f %%", availability(r.judged))
		slowest = fmt.Sprintf("%d ms", r.slowest.Milliseconds())
	}
	return []string{
		l.row.n, l.row.fault, fmt.Sprint(r.injected), n(r.judged.Acknowledged),
		n(r.findings.Twice), n(r.findings.Lost), n(r.findings.Wrong), reasons(r.abandoned),
		available, slowest, fmt.Sprintf("%.0f s", l.took.Seconds()), l.words(),
	}
}

// words is the verdict, on one line.
func (l *line) words() string {
	text := l.verdict
	if l.control != "" {
		text += "; control: " + l.control
	}
	if len(l.findings) > 0 {
		first, _, _ := strings.Cut(l.findings[0], "\n")
		text += "; " + first
	}
	return strings.Join(append([]string{text}, l.result.notes...), "; ")
}

// reasons is what was abandoned and why.
func reasons(abandoned map[string]int64) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(abandoned)) {
		parts = append(parts, fmt.Sprintf("%d %s", abandoned[reason], reason))
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, ", ")
}
