package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"keypool/loadtest/controls"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments"
)

// ownServers are the flags of experiments that start their own servers.
type ownServers struct {
	Controls bool   `help:"Also run the controls of each experiment. A control breaks the programs or changes their settings on purpose, and a claim must then fail."`
	Full     bool   `help:"Run the experiments at full size. They then use 100,000,000 keys and take minutes to hours."`
	Parallel int    `default:"4" help:"Number of experiments and controls that run at the same time. Experiments that measure time run alone."`
	Share    string `placeholder:"N/M" help:"Run only a part of the selected experiments: every M-th experiment, beginning with the N-th. The parts 1/2 and 2/2 together contain all selected experiments."`
	common
}

type allFlags struct {
	Only []string `placeholder:"NAME,..." help:"Run only these experiments of the load test."`
	ownServers
}

// Run runs the load test. If Ctrl-C ends the run early, the report contains what ran until then.
func (c *allFlags) Run(ctx context.Context, out output) error {
	all, err := experiment.Select(experiments.All(), "", experiments.LoadTest())
	if err != nil {
		return err
	}
	if all, err = experiment.Select(all, "", c.Only); err != nil {
		return err
	}
	return c.start(ctx, out, all, &experiment.Runner{Options: experiment.Options{Scale: 1}})
}

type experimentsFlags struct {
	Names []string         `arg:"" optional:"" help:"Names or groups of experiments, such as fault/10 or keysource; all by default."`
	Suite experiment.Suite `enum:"change,nightly,full," default:"" help:"Run only the experiments of this suite: change, nightly, full."`
	Scale float64          `default:"1" help:"Scale of the numbers and durations in the experiments. For example, 1 means 200 kills in fault/1 and a minute without Redis in fault/6."`
	List  bool             `help:"List the experiments and their claims instead of running them."`
	ownServers
}

// Run runs the experiments that the flags select.
func (c *experimentsFlags) Run(ctx context.Context, out output) error {
	all, err := experiment.Select(experiments.All(), c.Suite, c.Names)
	if err != nil {
		return err
	}
	if c.List {
		return list(out, all)
	}
	if c.Scale <= 0 {
		return errors.New("--scale must be above 0")
	}
	return c.start(ctx, out, all, &experiment.Runner{Options: experiment.Options{Scale: c.Scale}})
}

// list prints each experiment with its suites, claims and controls.
func list(out output, all []*experiment.Experiment) error {
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintf(&b, "%s  %s  %v\n", e.Name, e.Title, e.Suites)
		for _, claim := range e.Claims {
			fmt.Fprintf(&b, "    %-12s %s: %s\n", claim.Kind, claim.Name, claim.Text)
		}
		for _, control := range e.Controls {
			fmt.Fprintf(&b, "    %-12s %s refutes: %s\n", "control", control.Name(), control.Refutes)
		}
	}
	_, err := fmt.Fprint(out.stdout, &b)
	return err
}

// start runs experiments on the programs in the directory of this program. A control that removes a
// protection runs on programs that are built without this protection.
func (c *ownServers) start(ctx context.Context, out output, all []*experiment.Experiment, runner *experiment.Runner) error {
	if c.Parallel < 1 {
		return errors.New("--parallel must be at least 1")
	}
	all, err := share(all, c.Share)
	if err != nil {
		return err
	}
	dir, err := programs()
	if err != nil {
		return err
	}
	builds, err := os.MkdirTemp("", "keypool-builds-")
	if err != nil {
		return err
	}
	runner.Build = controls.NewBuilder(builds).Build
	runner.Programs, runner.Full, runner.Controls, runner.Parallel = dir, c.Full, c.Controls, c.Parallel
	return errors.Join(c.execute(ctx, out, all, runner), os.RemoveAll(builds))
}

// share returns every m-th experiment, beginning with the n-th experiment, for the text "n/m". The text
// "" selects all experiments.
func share(all []*experiment.Experiment, text string) (some []*experiment.Experiment, err error) {
	if text == "" {
		return all, nil
	}
	first, second, _ := strings.Cut(text, "/")
	n, errN := strconv.Atoi(first)
	m, errM := strconv.Atoi(second)
	if errN != nil || errM != nil || n < 1 || n > m || m > len(all) {
		return nil, fmt.Errorf("--share must be N/M with 1 <= N <= M <= %d, the number of selected experiments", len(all))
	}
	for i := n - 1; i < len(all); i += m {
		some = append(some, all[i])
	}
	return some, nil
}

// programs returns the directory of this program, which also contains the programs to test.
func programs() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(self)
	for _, name := range []string{"shortener", "kgs"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("%w; run `make build` first", err)
		}
	}
	return dir, nil
}
