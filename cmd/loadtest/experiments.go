package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"keypool/loadtest/controls"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments"
)

// defaultReport is the directory of a report when no other is given.
const defaultReport = "loadtest/report"

// common are the flags of every command that runs experiments on servers of its own.
type common struct {
	Strict   bool          `help:"A speed claim that fails fails the run."`
	Controls bool          `help:"Also run each experiment against programs that are broken on purpose; it must notice."`
	Full     bool          `help:"Not scaled down: minutes to hours, 100,000,000 keys."`
	Rate     float64       `placeholder:"N" help:"Creations per second; each experiment has its own by default."`
	Duration time.Duration `placeholder:"D" help:"Length of a steady load; each experiment has its own by default."`
	Report   string        `placeholder:"DIR" default:"${report}" help:"Directory of index.html and report.json."`
	Markdown string        `placeholder:"FILE" help:"Also write the claims and tables as Markdown to this file."`
	Programs string        `placeholder:"DIR" help:"Directory of the built programs; by default that of this one."`
	JSON     bool          `name:"json" help:"Print progress and verdicts as one JSON object a line."`
}

type loadTestFlags struct {
	Only []string `placeholder:"NAME,..." help:"Run only these experiments of the load test."`
	common
}

// Run runs the load test. Ctrl-C ends the experiment in progress, and the report holds what ran.
func (c *loadTestFlags) Run(ctx context.Context, out output) error {
	all, err := experiment.Select(experiments.All(), "", experiments.LoadTest())
	if err != nil {
		return err
	}
	if all, err = experiment.Select(all, "", c.Only); err != nil {
		return err
	}
	return c.execute(ctx, out, all, &experiment.Runner{Options: experiment.Options{Scale: 1}})
}

type experimentsFlags struct {
	Names    []string         `arg:"" optional:"" help:"Names or groups of experiments, such as fault/10 or keysource; all by default."`
	Suite    experiment.Suite `enum:"change,nightly,full," default:"" help:"Only those of this suite: change, nightly, full."`
	Except   []string         `placeholder:"NAME,..." help:"Leave these names or groups out."`
	Scale    float64          `default:"1" help:"How much of a fault row is done: 1 is 200 kills and a minute of load."`
	Parallel int              `default:"4" help:"Experiments at a time, of those that do not measure time."`
	List     bool             `help:"List the experiments and their claims instead of running them."`
	common
}

// Run runs the experiments that the flags select.
func (c *experimentsFlags) Run(ctx context.Context, out output) error {
	all, err := c.selected()
	if err != nil {
		return err
	}
	if c.List {
		return list(out, all)
	}
	if c.Scale <= 0 || c.Parallel < 1 {
		return errors.New("--scale must be above 0 and --parallel at least 1")
	}
	runner := &experiment.Runner{Options: experiment.Options{Scale: c.Scale}, Parallel: c.Parallel}
	return c.execute(ctx, out, all, runner)
}

func (c *experimentsFlags) selected() ([]*experiment.Experiment, error) {
	all, err := experiment.Select(experiments.All(), c.Suite, c.Names)
	if err != nil || len(c.Except) == 0 {
		return all, err
	}
	without, err := experiment.Select(experiments.All(), "", c.Except)
	return slices.DeleteFunc(all, func(e *experiment.Experiment) bool {
		return slices.ContainsFunc(without, func(w *experiment.Experiment) bool { return w.Name == e.Name })
	}), err
}

// list prints each experiment with its suites, claims and controls.
func list(out output, all []*experiment.Experiment) error {
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintf(&b, "%s  %s  %v\n", e.Name, e.Title, e.Suites)
		for _, claim := range e.Claims {
			fmt.Fprintf(&b, "    %-12s%s: %s\n", claim.Kind, claim.Name, claim.Text)
		}
		for _, control := range e.Controls {
			fmt.Fprintf(&b, "    %-12s%s refutes: %s\n", "control", control.Name(), control.Refutes)
		}
	}
	_, err := fmt.Fprint(out.stdout, &b)
	return err
}

// execute runs experiments on the programs in c.Programs and gives the verdict.
func (c *common) execute(ctx context.Context, out output, all []*experiment.Experiment, runner *experiment.Runner) error {
	if c.Rate < 0 || c.Rate > maxRate || c.Duration < 0 {
		return fmt.Errorf("--rate must be from 0 to %d, and --duration not negative", maxRate)
	}
	dir, err := programs(c.Programs)
	if err != nil {
		return err
	}
	runner.Controls = c.Controls
	runner.Programs, runner.Full, runner.Rate, runner.Duration = dir, c.Full, c.Rate, c.Duration
	builds, err := os.MkdirTemp("", "keypool-builds-")
	if err != nil {
		return err
	}
	builder := controls.NewBuilder(builds)
	runner.Build = func(ctx context.Context, p experiment.Programs) (string, error) {
		return builder.Build(ctx, p.Without, "shortener", "kgs")
	}
	h := &harness{runner: runner, strict: c.Strict, dir: c.Report, markdown: c.Markdown, view: newView(out, c.JSON, all)}
	return errors.Join(h.execute(ctx, all), os.RemoveAll(builds))
}

// programs returns the directory of the built programs: dir, or where this one is.
func programs(dir string) (string, error) {
	self, err := os.Executable()
	if dir = cmp.Or(dir, filepath.Dir(self)); dir == "." {
		return "", err
	}
	for _, name := range []string{"shortener", "kgs"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("%w; run `make build` first", err)
		}
	}
	return filepath.Abs(dir)
}
