// Package bars measures the speed and the memory of the programs, and how costs grow with the number of links. It
// compares these figures with the aims of the project.
// Many figures are judged as a ratio to a simple baseline, because absolute figures change with the
// machine. A figure and its baseline are measured in the same rounds.
//
// Every server is a separate process, and so is every baseline handler. wrk generates the load.
//
// Invariant: a measurement with an answer that is known to be wrong gives an error and no figure. The checks depend on
// the program that sends the requests. During a load by wrk, the checks detect a status of 400 or
// above. After the load, they compare the number of answers with the number of new database rows or
// with the number of redirects that the server counted. The whole answer, with its Location, is
// checked only once, before the load. If the experiment makes the look-ups or creations itself, without wrk, it
// checks every answer completely.
//
// Vocabulary: a bar is one figure with its aim. A yardstick is a figure without an aim, for
// comparison only.
package bars

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

const (
	rounds = 3
	each   = 4 * time.Second // duration of the measurement of one subject in one round
	mebi   = 1 << 20
)

// Experiments returns the experiments. The experiments that load the disk for a long time come last.
func Experiments() []*experiment.Experiment {
	return slices.Concat(earlier(), rivals(), []*experiment.Experiment{create(), redirect(), links(), keys(), memory(), refill(), start(), large(sqliteEngine()), large(postgresEngine()), citus()})
}

// bar is one figure with its aim, or a yardstick.
type bar struct {
	name string // short name, the same in every run
	text string // sentence of the claim; "" for a yardstick
	unit string
	// If versus is not "", it names the baseline, and the aim is about the ratio to the baseline.
	// Otherwise, the aim is about the figure itself.
	versus      string
	least, most float64 // the aim; only one of the two is set, and neither for a yardstick
	note        string  // explanation for the reader of the figure
}

// figure holds the measured values of a bar and those of its baseline, one of each for each round.
type figure struct{ measured, baseline measure.Series }

// record holds the figures by the name of their bar.
type record struct {
	figures map[string]figure
	links   *loadtest.Verdict // nil in an experiment that does not read links back
	tables  []report.Table    // further tables
	notes   []string          // further notes
}

// put records a figure, and its baseline if the bar has one. It ignores an empty figure, which means
// that the subject failed.
func (r *record) put(name string, measured, baseline measure.Series) {
	if r.figures == nil {
		r.figures = make(map[string]figure)
	}
	if len(measured) > 0 {
		r.figures[name] = figure{measured, baseline}
	}
}

// repeat makes count calls of round and records the values that the calls return.
func (r *record) repeat(count int, round func() map[string]float64) {
	all := make(map[string]measure.Series)
	for range count {
		for name, v := range round() {
			all[name] = append(all[name], v)
		}
	}
	for name, s := range all {
		r.put(name, s, nil)
	}
}

// define returns the experiment bars/NAME, which measures the given bars.
func define(name, title, summary string, bars []bar, run func(*experiment.T, *record)) *experiment.Experiment {
	return experiment.Define(definition("bars/"+name, title, summary, bars, run))
}

// definition returns the definition of an experiment that measures bars.
func definition(name, title, summary string, bars []bar, run func(*experiment.T, *record)) experiment.Definition[record] {
	d := experiment.Definition[record]{
		Name: name, Title: title, Summary: summary, Suites: []experiment.Suite{experiment.Nightly}, Alone: true, Run: run,
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
		table := report.Table{Title: title, Columns: []string{"what", "measured", "baseline", "judged (range)", "aim"}}
		for _, b := range bars {
			if f, ok := r.figures[b.name]; ok {
				table.Rows = append(table.Rows, b.row(f))
				if b.note != "" {
					e.Notes = append(e.Notes, b.name+": "+b.note)
				}
			}
		}
		e.Tables = append(append(e.Tables, table), r.tables...)
		e.Notes = append(e.Notes, r.notes...)
		e.Notes = append(e.Notes, "If a bar has a baseline, the judged value is the median of the ratios of all rounds. The medians of the measured values and of the baselines are computed separately, so their ratio can differ from the judged value. The range is that of the rounds. A yardstick is a figure without an aim, for comparison only. A missed bar does not fail the run.")
	}
	return d
}

// judged returns the values that the aim is about: the ratios, or the figures themselves.
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
	why := "the median of the rounds is " + judged.Spread(b.judgedUnit())
	if b.versus != "" {
		why = fmt.Sprintf("the median ratio to the baseline (%s) is %s; the median of the measured values is %s, and the median of the baseline is %s",
			b.versus, judged.Spread(b.judgedUnit()), measure.Quantity(f.measured.Median(), b.unit), measure.Quantity(f.baseline.Median(), b.unit))
	}
	if b.most > 0 {
		return experiment.AtMost(b.most, judged.Median(), "%s", why)
	}
	return experiment.AtLeast(b.least, judged.Median(), "%s", why)
}

// row returns the table cells of a bar.
func (b *bar) row(f figure) []string {
	baseline, aim := "", "yardstick"
	if b.versus != "" {
		baseline = measure.Quantity(f.baseline.Median(), b.unit) + " " + b.versus
	}
	switch {
	case b.most > 0:
		aim = "≤ " + measure.Quantity(b.most, b.judgedUnit())
	case b.least > 0:
		aim = "≥ " + measure.Quantity(b.least, b.judgedUnit())
	}
	return []string{b.name, measure.Quantity(f.measured.Median(), b.unit), baseline, b.judged(f).Spread(b.judgedUnit()), aim}
}

// alternate measures all subjects in each round. See alternateIn.
func alternate(t *experiment.T, subjects ...measure.Subject) []measure.Series {
	return alternateIn(t, rounds, subjects...)
}

// alternateIn measures all subjects in each of count rounds. It records the errors of subjects that failed and
// continues with the other subjects.
func alternateIn(t *experiment.T, count int, subjects ...measure.Subject) []measure.Series {
	figures, err := measure.Alternate(t.Context(), count, func(line string) { t.Logf("%s", line) }, subjects...)
	if err != nil {
		t.Errorf("%w", err)
	}
	return figures
}

// Bodies of requests. aliasBody creates a link with the alias "alias", and keyBody creates a link whose code is a key.
const (
	aliasBody = `{"url":"` + measure.Target + `","alias":"alias"}`
	keyBody   = `{"url":"` + measure.Target + `"}`
)

// withAlias starts an embedded server with the settings, makes one link on it, and follows the link once.
func withAlias(t *experiment.T, settings ...string) *lab.Program {
	server := lab.Server(t, settings...)
	server.Start()
	t.Must(errors.Join(
		measure.TryCreation(t.Context(), server.Public, aliasBody),
		measure.TryVisit(t.Context(), server.Public, "alias", measure.Target),
	))
	return server
}

// counted returns a check for a load by wrk, which sees only the answers and not what the server did. The
// function count reads a counter. The check fails if this counter grew by less than the number of answers
// since the last check.
func counted(t *experiment.T, what string, count func(context.Context) (int64, error)) func(context.Context, int64) error {
	before, err := count(t.Context())
	t.Must(err)
	return func(ctx context.Context, answers int64) error {
		ctx, cancel := context.WithTimeout(ctx, loadtest.DefaultTimeout)
		defer cancel()
		after, err := count(ctx)
		if err == nil && after-before < answers {
			err = fmt.Errorf("only %d of %d answers %s", after-before, answers, what)
		}
		before = after
		return err
	}
}

// redirectsCounted returns a check that the server counted a redirect for every answer.
func redirectsCounted(t *experiment.T, server *lab.Program) func(context.Context, int64) error {
	return counted(t, "were redirects", func(context.Context) (int64, error) {
		n, err := server.TryCounter("shortener_redirects_total", "result", "found")
		return int64(n), err
	})
}
