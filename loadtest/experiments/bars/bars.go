// Package bars measures the aims of the project: speed, memory and growth, each beside
// something simple that is measured in the same rounds, because absolute figures change with
// the machine.
//
// Every server is a process of its own, the bare handlers too, and wrk generates the load.
//
// Invariant: an answer that is known to be wrong is an error and not a figure. How much is
// known differs. Under wrk a status of 400 or above is seen, fewer rows than answers in the
// database, and fewer redirects than answers in the server's own count; the whole answer, with
// its Location, is only checked once before the load. Look-ups and creations that this
// program makes itself are checked in full.
//
// Vocabulary: a bar is one figure with its aim; a yardstick is a figure without an aim, for
// comparison only.
package bars

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

const (
	rounds = 3
	each   = 4 * time.Second // of a subject in a round
	mebi   = 1 << 20
)

// Experiments returns the bars, those that load the disk for long last.
func Experiments() []*experiment.Experiment {
	return []*experiment.Experiment{create(), redirect(), keys(), memory(), refill(), start(), large(sqliteEngine()), large(postgresEngine())}
}

// bar is one figure with its aim.
type bar struct {
	name string // short, the same in every run
	text string // the sentence of the claim; "" makes a yardstick
	unit string
	// versus is the baseline; the aim is then about the ratio. "" judges the figure itself.
	versus string
	aim    aim
	note   string // what a reader must know to understand the figure
}

// aim is the bound of a bar.
type aim struct {
	most  bool // the figure must not be above bound; else it must not be below
	bound float64
}

func atLeast(bound float64) aim { return aim{bound: bound} }
func atMost(bound float64) aim  { return aim{most: true, bound: bound} }

// figure is what was measured for a bar, one value for each round.
type figure struct{ measured, baseline measure.Series }

// record holds the figures by the name of their bar.
type record struct{ figures map[string]figure }

// put records a figure, and baseline where the bar has one. A subject that failed has no figure.
func (r *record) put(name string, measured, baseline measure.Series) {
	if r.figures == nil {
		r.figures = make(map[string]figure)
	}
	if len(measured) > 0 {
		r.figures[name] = figure{measured, baseline}
	}
}

// define makes an experiment of bars.
func define(name, title, summary string, bars []bar, run func(*experiment.T, *record)) *experiment.Experiment {
	d := experiment.Definition[record]{
		Name: "bars/" + name, Title: title, Summary: summary, Suites: []experiment.Suite{experiment.Nightly}, Alone: true, Run: run,
	}
	for _, b := range bars {
		if b.text == "" {
			continue
		}
		d.Claims = append(d.Claims, experiment.Claim[record]{
			Name: b.name, Text: b.text, Unit: b.judgedUnit(), Kind: report.Bar,
			Judge: func(r *record) experiment.Verdict { return b.judge(r.figures[b.name]) },
		})
	}
	d.Show = func(r *record, e *report.Experiment) {
		table := report.Table{Title: title, Columns: []string{"what", "measured", "baseline", "judged (range)", "aim", "verdict"}}
		for _, b := range bars {
			if f, ok := r.figures[b.name]; ok {
				table.Rows = append(table.Rows, b.row(f))
				if b.note != "" {
					e.Notes = append(e.Notes, b.name+": "+b.note)
				}
			}
		}
		e.Tables = append(e.Tables, table)
	}
	return experiment.Define(d)
}

// judged is what the aim is about: ratios, or the figures themselves.
func (b *bar) judged(f figure) measure.Series {
	if b.versus == "" {
		return f.measured
	}
	return f.measured.Over(f.baseline)
}

func (b *bar) judgedUnit() string {
	if b.versus == "" {
		return b.unit
	}
	return measure.Times
}

// judge compares the median over the rounds with the aim.
func (b *bar) judge(f figure) experiment.Verdict {
	judged := b.judged(f)
	if len(judged) == 0 {
		return experiment.Verdict{}
	}
	why := judged.Spread(b.judgedUnit())
	if b.versus != "" {
		why += fmt.Sprintf(" of %s: %s and %s", b.versus, measure.Quantity(f.measured.Median(), b.unit), measure.Quantity(f.baseline.Median(), b.unit))
	}
	if b.aim.most {
		return experiment.AtMost(b.aim.bound, judged.Median(), "%s", why)
	}
	return experiment.AtLeast(b.aim.bound, judged.Median(), "%s", why)
}

// row are the cells of a bar.
func (b *bar) row(f figure) []string {
	baseline, bound, verdict := "", "", "yardstick"
	if b.versus != "" {
		baseline = measure.Quantity(f.baseline.Median(), b.unit) + " " + b.versus
	}
	if b.text != "" {
		sign := "≥ "
		if b.aim.most {
			sign = "≤ "
		}
		bound, verdict = sign+measure.Quantity(b.aim.bound, b.judgedUnit()), "misses"
		if b.judge(f).Outcome == report.Held {
			verdict = "holds"
		}
	}
	return []string{b.name, measure.Quantity(f.measured.Median(), b.unit), baseline, b.judged(f).Spread(b.judgedUnit()), bound, verdict}
}

// alternate measures all subjects in each round. It records the errors of those that failed and
// goes on with the others.
func alternate(t *experiment.T, subjects ...measure.Subject) []measure.Series {
	figures, err := measure.Alternate(t.Context(), rounds, func(line string) { t.Logf("%s", line) }, subjects...)
	if err != nil {
		t.Errorf("%w", err)
	}
	return figures
}

// aliasBody asks for a link with a known code.
const aliasBody = `{"url":"` + measure.Target + `","alias":"alias"}`

// keyBody asks for a link with a key.
const keyBody = `{"url":"` + measure.Target + `"}`

// withAlias starts an embedded server that has one link, which was followed once.
func withAlias(t *experiment.T) *lab.Program {
	server := lab.Server(t)
	server.Start()
	t.Must(errors.Join(
		measure.Creation(server.Public, aliasBody).Try(t.Context()),
		measure.Visit(server.Public, "alias", measure.Target).Try(t.Context()),
	))
	return server
}

// redirectsCounted returns a check that the server redirected as many requests as were
// answered since the last check: wrk itself would count a 200 too.
func redirectsCounted(server *lab.Program) func(context.Context, int64) error {
	before := server.Counter("shortener_redirects_total", "result", "found")
	return func(_ context.Context, answers int64) error {
		after, err := server.TryCounter("shortener_redirects_total", "result", "found")
		if err == nil && after-before < float64(answers) {
			err = fmt.Errorf("of %d answers only %.0f were redirects", answers, after-before)
		}
		before = after
		return err
	}
}
