package experiment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"keypool/loadtest/report"

	"golang.org/x/sync/errgroup"
)

// controlScale is the most that is done of a control: one refutation is enough.
const controlScale = 0.1

// Runner runs experiments. The zero values of Parallel and Build mean one at a time, and no
// experiment that needs another build.
type Runner struct {
	Options
	Controls bool // also run every control
	Parallel int  // experiments at a time, of those that do not measure time
	// Build returns the directory of programs with crash points and without these protections. It is
	// called concurrently and keeps what it built.
	Build func(ctx context.Context, without ...string) (dir string, err error)
	// Done gets each experiment when it has ended, one at a time.
	Done func(report.Experiment)

	observe func() (foreign func() float64) // tests replace it
	mu      sync.Mutex
}

// Run runs the experiments, first those that may run side by side, and returns when the last
// has ended and everything that they started is gone. When ctx ends, what has not
// started yet is left out.
func (r *Runner) Run(ctx context.Context, all []*Experiment) {
	var beside errgroup.Group
	beside.SetLimit(max(1, r.Parallel))
	for _, e := range all {
		if !e.Alone && ctx.Err() == nil {
			beside.Go(func() error { r.one(ctx, e); return nil })
		}
	}
	_ = beside.Wait() // its functions return no error
	for _, e := range all {
		if e.Alone && ctx.Err() == nil {
			r.one(ctx, e)
		}
	}
}

// one runs an experiment and its controls.
func (r *Runner) one(ctx context.Context, e *Experiment) {
	started := time.Now()
	result := r.measured(ctx, e)
	if r.Controls {
		for _, c := range e.Controls {
			if ctx.Err() == nil {
				result.Controls = append(result.Controls, r.control(ctx, e, c))
			}
		}
	}
	result.Started, result.Seconds = started, time.Since(started).Seconds()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Done(result)
}

// measured runs an experiment, and once more when only a speed did not hold the first time, or an
// availability is inconclusive: then something else may have kept the machine busy. What was found wrong the first time stays.
func (r *Runner) measured(ctx context.Context, e *Experiment) report.Experiment {
	first := r.run(ctx, e, Control{}, r.Scale)
	slow, wrong := failures(first.Claims)
	if first.Error != "" || ctx.Err() != nil || len(slow) == 0 || wrong {
		return first
	}
	r.Log(e.Name + ": a claim that depends on time does not hold; the experiment runs once more")
	second := r.run(ctx, e, Control{}, r.Scale)
	second.Notes = append(second.Notes, "Measured twice. The first time: "+strings.Join(slow, "; "))
	return second
}

// run runs an experiment once. The zero Control leaves the programs sound.
func (r *Runner) run(ctx context.Context, e *Experiment, c Control, scale float64) report.Experiment {
	t := &T{Options: r.Options, name: e.Name, settings: c.Settings, ctx: ctx}
	t.sound, t.observe = len(c.Without)+len(c.Settings) == 0, observe
	if r.observe != nil {
		t.observe = r.observe
	}
	t.Scale = scale
	crashes := func(s string) bool { return strings.HasPrefix(s, "KEYPOOL_FAILPOINTS=") }
	if e.Failpoints || slices.ContainsFunc(c.Settings, crashes) || len(c.Without) > 0 { // not as they are shipped
		dir, err := r.Build(ctx, c.Without...)
		if err != nil {
			return e.part(fmt.Errorf("build the programs: %w", err))
		}
		t.Programs = dir
	}
	result := e.run(t)
	if ctx.Err() != nil {
		for i := range result.Claims {
			if claim := &result.Claims[i]; claim.Outcome == report.NotJudged {
				claim.Why = "the run was interrupted"
			}
		}
		result.Error = "" // what failed after the interruption failed because of it
	}
	return result
}

// control runs an experiment against broken programs and reports whether the claim failed.
func (r *Runner) control(ctx context.Context, e *Experiment, c Control) report.Control {
	r.Log(fmt.Sprintf("%s: control %s", e.Name, c.Name()))
	result := r.run(ctx, e, c, min(r.Scale, controlScale))
	control := report.Control{Name: c.Name(), Refutes: strings.Join(c.refutes(), ", "), Caught: true}
	var why []string
	for _, name := range c.refutes() {
		i := slices.IndexFunc(result.Claims, func(claim report.Claim) bool { return claim.Name == name })
		claim := result.Claims[i]
		control.Caught = control.Caught && claim.Outcome == report.Failed
		why = append(why, fmt.Sprintf("%s is %s: %s", name, claim.Outcome, claim.Why))
	}
	if !control.Caught && result.Error != "" {
		why = append(why, result.Error)
	}
	control.Why = strings.Join(why, "; ")
	return control
}

// failures says which claims do not hold and why, when to measure again may help, and whether
// there are others.
func failures(claims []report.Claim) (slow []string, wrong bool) {
	for _, c := range claims {
		switch {
		case c.Outcome == report.Inconclusive, c.Outcome == report.Failed && c.Kind == report.Speed:
			slow = append(slow, fmt.Sprintf("%s is %s: %s", c.Name, c.Outcome, c.Why))
		case c.Outcome == report.Failed && c.Kind != report.Bar:
			wrong = true
		}
	}
	return slow, wrong
}

// Select returns the experiments of a suite, "" for any, that names name: by their whole
// name, by their group, or by what follows the slash. No names stand for all. A name of no
// experiment is an error.
func Select(all []*Experiment, suite Suite, names []string) ([]*Experiment, error) {
	unknown := slices.Clone(names)
	var selected []*Experiment
	for _, e := range all {
		group, rest, _ := strings.Cut(e.Name, "/")
		named := func(name string) bool { return name == e.Name || name == group || name == rest }
		unknown = slices.DeleteFunc(unknown, named)
		if (len(names) == 0 || slices.ContainsFunc(names, named)) && (suite == "" || slices.Contains(e.Suites, suite)) {
			selected = append(selected, e)
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("there is no experiment or group %q; `loadtest experiments --list` lists them", unknown)
	}
	return selected, nil
}
