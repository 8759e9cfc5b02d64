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

// Programs says which build of the programs a run starts.
type Programs struct {
	Failpoints bool     // crash points are active
	Without    []string // names of the protections that are left out
}

// sound are the programs as they are shipped.
func (p Programs) sound() bool { return !p.Failpoints && len(p.Without) == 0 }

// Runner runs experiments. The zero values of Parallel and Build mean one at a time, and no
// experiment that needs another build.
type Runner struct {
	Options
	Controls bool // also run every control
	Parallel int  // experiments at a time, of those that do not measure time
	// Build returns the directory of the programs that were built so. It is called
	// concurrently and keeps what it built.
	Build func(ctx context.Context, p Programs) (dir string, err error)
	// Done gets each experiment when it has ended, one at a time.
	Done func(report.Experiment)

	mu sync.Mutex
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

// measured runs an experiment, and once more when only a speed did not hold the first time: then
// something else may have kept the machine busy. What was found wrong the first time stays.
func (r *Runner) measured(ctx context.Context, e *Experiment) report.Experiment {
	first := r.run(ctx, e, nil, r.Scale)
	if first.Error != "" || ctx.Err() != nil || !slow(first.Claims) || wrong(first.Claims) {
		return first
	}
	r.Log(e.Name + ": a speed claim does not hold; the experiment runs once more")
	second := r.run(ctx, e, nil, r.Scale)
	second.Notes = append(second.Notes, "Measured twice. The first time: "+strings.Join(reasons(first.Claims), "; "))
	return second
}

// run runs an experiment once, sound or as its control.
func (r *Runner) run(ctx context.Context, e *Experiment, c *Control, scale float64) report.Experiment {
	programs := Programs{Failpoints: e.Failpoints}
	if c != nil {
		programs.Without = c.Without
		programs.Failpoints = programs.Failpoints || c.failpoints()
	}
	t := &T{Options: r.Options, name: e.Name, control: c, ctx: ctx}
	t.Scale = scale
	if !programs.sound() {
		dir, err := r.Build(ctx, programs)
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
	result := r.run(ctx, e, &c, min(r.Scale, controlScale))
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

// slow says that a speed claim failed or is inconclusive.
func slow(claims []report.Claim) bool {
	return slices.ContainsFunc(claims, func(c report.Claim) bool {
		return c.Kind == report.Speed && (c.Outcome == report.Failed || c.Outcome == report.Inconclusive)
	})
}

// wrong says that a correctness claim failed.
func wrong(claims []report.Claim) bool {
	return slices.ContainsFunc(claims, func(c report.Claim) bool {
		return c.Kind == report.Correctness && c.Outcome == report.Failed
	})
}

// reasons are those of the claims that did not hold.
func reasons(claims []report.Claim) (why []string) {
	for _, c := range claims {
		if c.Outcome == report.Failed || c.Outcome == report.Inconclusive {
			why = append(why, fmt.Sprintf("%s is %s: %s", c.Name, c.Outcome, c.Why))
		}
	}
	return why
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
