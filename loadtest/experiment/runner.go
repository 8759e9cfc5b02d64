package experiment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"keypool/loadtest/report"
)

// controlScale is the largest scale of a control. It is small because one refutation is enough.
const controlScale = 0.1

// Runner runs experiments. If Parallel is 0, experiments run one at a time. Build may be nil
// only if no experiment and no control needs failpoints or a program without a protection.
type Runner struct {
	Options
	Controls bool // also run every control
	Parallel int  // how many experiments run at a time; for an experiment with [Definition.Alone], how many of its controls
	// Build builds programs with failpoints and without the named protections, and returns their
	// directory. It is called concurrently and reuses earlier builds.
	Build func(ctx context.Context, without ...string) (dir string, err error)
	// Done is called with the report of each experiment that has ended, one call at a time.
	Done func(report.Experiment)

	observe func() (foreign func() float64) // replaces the function observe in tests; nil otherwise
	mu      sync.Mutex
}

// Run runs the experiments, first those that may run in parallel. It returns when all experiments and
// everything that they started have ended. When ctx ends, Run starts no further experiment.
func (r *Runner) Run(ctx context.Context, all []*Experiment) {
	var beside errgroup.Group
	beside.SetLimit(max(1, r.Parallel))
	for _, e := range all {
		if !e.Alone && ctx.Err() == nil {
			beside.Go(func() error {
				if ctx.Err() == nil { // it may have waited for its turn
					r.one(ctx, e)
				}
				return nil
			})
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
		result.Controls = r.controls(ctx, e)
	}
	result.Started, result.Seconds = started, time.Since(started).Seconds()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Done(result)
}

// controls runs the controls of an experiment and returns those that ended before ctx. The controls of an
// experiment that ran alone run in parallel, because a control need not measure time.
func (r *Runner) controls(ctx context.Context, e *Experiment) (ended []report.Control) {
	var beside errgroup.Group
	beside.SetLimit(1)
	if e.Alone {
		beside.SetLimit(max(1, r.Parallel))
	}
	all := make([]report.Control, len(e.Controls))
	for i, c := range e.Controls {
		beside.Go(func() error {
			if ctx.Err() == nil { // it may have waited for its turn
				if control := r.control(ctx, e, c); ctx.Err() == nil {
					all[i] = control
				}
			}
			return nil
		})
	}
	_ = beside.Wait() // its functions return no error
	return slices.DeleteFunc(all, func(c report.Control) bool { return c.Name == "" })
}

// measured runs an experiment. It runs the experiment a second time if speed claims failed or claims
// were inconclusive, because other programs may have kept the machine busy. If any other claim
// except a bar failed, measured does not repeat the experiment, and the failure is final.
func (r *Runner) measured(ctx context.Context, e *Experiment) report.Experiment {
	first := r.run(ctx, e, Control{}, r.Scale)
	slow, wrong := failures(first.Claims)
	if first.Error != "" || ctx.Err() != nil || len(slow) == 0 || wrong {
		return first
	}
	r.Log(e.Name + ": a claim that depends on time does not hold; the experiment runs once more")
	second := r.run(ctx, e, Control{}, r.Scale)
	second.Notes = append(second.Notes, fmt.Sprintf("The experiment ran twice. In the first run, %d of %d claims failed or were inconclusive. %s",
		len(slow), len(first.Claims), strings.Join(slow, " ")))
	return second
}

// run runs an experiment once. The zero Control removes no protection and changes no setting.
func (r *Runner) run(ctx context.Context, e *Experiment, c Control, scale float64) report.Experiment {
	t := &T{Options: r.Options, name: e.Name, settings: c.Settings, ctx: ctx}
	t.sound, t.observe = len(c.Without)+len(c.Settings) == 0, observe
	if r.observe != nil {
		t.observe = r.observe
	}
	t.Scale = scale
	crashes := func(s string) bool { return strings.HasPrefix(s, "KEYPOOL_FAILPOINTS=") }
	if e.Failpoints || slices.ContainsFunc(c.Settings, crashes) || len(c.Without) > 0 { // the shipped programs do not suffice
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
		result.Error = "" // the interruption explains the error
	}
	return result
}

// control runs an experiment with a control. It reports whether each claim that the control must refute
// has failed.
func (r *Runner) control(ctx context.Context, e *Experiment, c Control) report.Control {
	r.Log(fmt.Sprintf("%s: control %s", e.Name, c.Name()))
	result := r.run(ctx, e, c, min(r.Scale, controlScale))
	control := report.Control{Name: c.Name(), Refutes: strings.Join(c.refutes(), ", "), Caught: true}
	var why []string
	for _, name := range c.refutes() {
		i := slices.IndexFunc(result.Claims, func(claim report.Claim) bool { return claim.Name == name })
		claim := result.Claims[i]
		control.Caught = control.Caught && claim.Outcome == report.Failed
		why = append(why, refutation(claim))
	}
	for _, claim := range result.Claims { // a failed claim may have ended the run
		if !control.Caught && claim.Outcome == report.Failed && !slices.Contains(c.refutes(), claim.Name) {
			why = append(why, fmt.Sprintf("Claim %q: failed (%s).", claim.Name, claim.Why))
		}
	}
	if !control.Caught && result.Error != "" {
		why = append(why, "The run ended with an error: "+result.Error+".")
	}
	control.Why = strings.Join(why, " ")
	return control
}

// refutation says in a sentence whether a claim that a control must refute has failed.
func refutation(c report.Claim) string {
	switch c.Outcome {
	case report.Failed:
		return fmt.Sprintf("Claim %q: failed, as it must (%s).", c.Name, c.Why)
	case report.NotJudged:
		return fmt.Sprintf("Claim %q: not judged, because %s.", c.Name, c.Why)
	}
	return fmt.Sprintf("Claim %q: %s, but it must fail (%s).", c.Name, c.Outcome, c.Why)
}

// failures returns two results: slow has a sentence for each claim that another measurement may settle, and wrong
// reports whether any other claim except a bar failed.
func failures(claims []report.Claim) (slow []string, wrong bool) {
	for _, c := range claims {
		switch {
		case c.Outcome == report.Inconclusive, c.Outcome == report.Failed && c.Kind == report.Speed:
			slow = append(slow, fmt.Sprintf("Claim %q: %s (%s).", c.Name, c.Outcome, c.Why))
		case c.Outcome == report.Failed && c.Kind != report.Bar:
			wrong = true
		}
	}
	return slow, wrong
}

// Select returns the experiments that are in the suite and that the names select. The suite "" contains all
// experiments. A name in names is the whole name of an experiment, or a group, or the part of a name after the
// slash if it is not a group. Without names, Select returns the whole suite. A name that selects no
// experiment is an error.
func Select(all []*Experiment, suite Suite, names []string) ([]*Experiment, error) {
	unknown := slices.Clone(names)
	groups := make(map[string]bool)
	for _, e := range all {
		group, _, _ := strings.Cut(e.Name, "/")
		groups[group] = true
	}
	var selected []*Experiment
	for _, e := range all {
		group, rest, _ := strings.Cut(e.Name, "/")
		named := func(name string) bool { return name == e.Name || name == group || name == rest && !groups[name] }
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
