package experiment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"keypool/loadtest/report"
)

// controlScale is the largest scale of a control. It is small because one refutation is enough.
const controlScale = 0.1

// Runner runs experiments. If Parallel is 0, the experiments run one at a time. Build may be nil if no
// experiment and no control needs failpoints, and no control removes a protection.
type Runner struct {
	Options
	Controls bool // the runner also runs every control
	Parallel int  // how many experiments and controls run at a time; experiments with [Definition.Alone] run one at a time
	// Build builds programs with failpoints and without the named protections, and returns their directory. The
	// runner calls Build concurrently, and more than once with the same protections.
	Build func(ctx context.Context, without ...string) (dir string, err error)
	// Done is called with the report of each experiment that has ended and whose controls have ended, one call at a time.
	Done func(report.Experiment)

	observe func() (end func() disturbance) // replaces the function observe in tests; nil otherwise
	mu      sync.Mutex
}

// Run runs the experiments in three steps. First it runs the experiments that may run in parallel, and their controls.
// Such an experiment must tolerate the load of other experiments and controls. Then it runs the controls of the
// experiments with [Definition.Alone], in parallel with each other, because controls need not measure time. Then it runs
// the experiments with Alone, one after the other. Run returns when all experiments and all programs that they started
// have ended. When ctx ends, Run starts no further experiment and no further control.
func (r *Runner) Run(ctx context.Context, all []*Experiment) {
	var parallel, later, alone []func()
	for _, e := range all {
		measure, controls := r.tasks(ctx, e)
		if e.Alone {
			alone, later = append(alone, measure), append(later, controls...)
		} else {
			parallel = append(append(parallel, measure), controls...)
		}
	}
	start(r.Parallel, parallel)
	start(r.Parallel, later)
	start(1, alone)
}

// tasks returns a function that runs the experiment, and a function for each control. The function that ends last passes
// the report to r.Done. After ctx has ended, the functions run nothing.
func (r *Runner) tasks(ctx context.Context, e *Experiment) (measure func(), controls []func()) {
	var ended []report.Control
	if r.Controls {
		ended = make([]report.Control, len(e.Controls))
	}
	var result *report.Experiment // nil until the experiment has ended
	left := new(atomic.Int64)     // number of tasks that have not ended
	left.Store(int64(1 + len(ended)))
	task := func(do func()) func() {
		return func() {
			if ctx.Err() == nil {
				do()
			}
			if left.Add(-1) == 0 && result != nil {
				r.done(*result, ended)
			}
		}
	}
	for i := range ended {
		controls = append(controls, task(func() {
			if c := r.control(ctx, e, e.Controls[i]); ctx.Err() == nil { // an interrupted control proves nothing
				ended[i] = c
			}
		}))
	}
	return task(func() { result = new(r.measured(ctx, e)) }), controls
}

// start calls the functions, at most limit at a time, and waits for them.
func start(limit int, functions []func()) {
	var running errgroup.Group
	running.SetLimit(max(1, limit))
	for _, f := range functions {
		running.Go(func() error {
			f()
			return nil
		})
	}
	_ = running.Wait() // the functions return no error
}

// done adds the controls that have ended to the report of their experiment, and passes the report to r.Done.
func (r *Runner) done(result report.Experiment, ended []report.Control) {
	result.Controls = slices.DeleteFunc(ended, func(c report.Control) bool { return c.Name == "" })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Done(result)
}

// measured runs an experiment and returns its report. If the run ends with an error, or if a correctness or availability
// claim fails, the result is final. Otherwise, if a speed claim fails or a claim is inconclusive, other programs may have
// kept the machine busy. In this case, measured runs the experiment a second time and returns the second report. A missed
// bar causes no repetition.
func (r *Runner) measured(ctx context.Context, e *Experiment) (result report.Experiment) {
	started := time.Now()
	defer func() { result.Started, result.Seconds = started, time.Since(started).Seconds() }()
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
	if !t.sound { // the experiment may run at the same time
		t.name += " (control " + c.Name() + ")"
	}
	if r.observe != nil {
		t.observe = r.observe
	}
	t.Scale = scale
	crashes := func(s string) bool { return strings.HasPrefix(s, "KEYPOOL_FAILPOINTS=") }
	if e.Failpoints || slices.ContainsFunc(c.Settings, crashes) || len(c.Without) > 0 { // the shipped programs have all protections and no failpoints
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

// control runs an experiment with a control. The control is caught if each claim that the control must refute has
// failed.
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
	for _, claim := range result.Claims { // another failed claim may have ended the run early
		if !control.Caught && claim.Outcome == report.Failed && !slices.Contains(c.refutes(), claim.Name) {
			why = append(why, fmt.Sprintf("The claim %q failed too (%s).", claim.Name, claim.Why))
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
		return fmt.Sprintf("The claim %q failed, as required (%s).", c.Name, c.Why)
	case report.NotJudged:
		return fmt.Sprintf("The claim %q was not judged, because %s.", c.Name, c.Why)
	}
	return fmt.Sprintf("The claim %q %s, but this claim must fail (%s).", c.Name, result(c.Outcome), c.Why)
}

// result returns an outcome as the verb of a sentence about a claim.
func result(o report.Outcome) string {
	if o == report.Inconclusive || o == report.NotJudged {
		return "was " + string(o)
	}
	return string(o)
}

// failures describes the claims that do not hold. slow has a sentence for each claim that a second run may decide.
// wrong reports whether a correctness or availability claim failed, because then no second run is allowed.
func failures(claims []report.Claim) (slow []string, wrong bool) {
	for _, c := range claims {
		switch {
		case c.Outcome == report.Inconclusive, c.Outcome == report.Failed && c.Kind == report.Speed:
			slow = append(slow, fmt.Sprintf("The claim %q %s (%s).", c.Name, result(c.Outcome), c.Why))
		case c.Outcome == report.Failed && c.Kind != report.Bar:
			wrong = true
		}
	}
	return slow, wrong
}

// Select returns the experiments that are in the suite and that the names select. The suite "" contains all
// experiments. Without names, Select returns the whole suite. A name selects:
//
//   - the experiment with this name, such as fault/10;
//   - all experiments of the group with this name, such as fault;
//   - if no group has this name, each experiment with this name after the slash, such as create for load/create.
//
// If a name matches no experiment in the list all, Select returns an error. A name that matches only experiments
// outside the suite is no error.
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
