package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"keypool/cmd/internal/version"
	"keypool/loadtest/report"
	"keypool/loadtest/scenario"
	"keypool/loadtest/testbed"
)

// defaultReport is where a report goes unless it is told otherwise.
const defaultReport = "loadtest/report"

type allFlags struct {
	Scenario []string      `placeholder:"NAME,..." help:"Only these: ${scenarios}."`
	Full     bool          `help:"Unscaled: minutes to hours, 100,000,000 keys filled for real."`
	Rate     float64       `placeholder:"N" help:"Links per second, of the scenario mix redirects; for ${rated}, and each one's own when not given."`
	Duration time.Duration `placeholder:"D" help:"Of the steady part; for ${timed}, and each one's own when not given."`
	Report   string        `placeholder:"DIR" default:"${report}" help:"Where index.html and report.json go."`
	Programs string        `placeholder:"DIR" help:"Where the programs are; beside this one when not given."`
	JSON     bool          `name:"json" help:"Print how far it is, and the verdicts, as a line of JSON each."`
}

// Run runs the scenarios. Ctrl-C ends the one that is under way, and what ran is reported.
func (c *allFlags) Run(ctx context.Context, out output) error {
	if c.Rate < 0 || c.Rate > maxRate || c.Duration < 0 {
		return fmt.Errorf("--rate and --duration must not be below 0, and the rate not over %d", maxRate)
	}
	scenarios, err := choose(c.Scenario, whatever)
	if err != nil {
		return err
	}
	if err := c.heeded(scenarios); err != nil {
		return err
	}
	if c.Programs, err = programs(c.Programs); err != nil {
		return err
	}
	bed, err := testbed.New(c.Programs) // only to see whether it could be made
	if err != nil {
		return err
	}
	if err := bed.Close(); err != nil {
		return err
	}
	h := &harness{
		scenarios: scenarios, dir: c.Report, view: newView(out, c.JSON, scenarios),
		run: scenario.Run{Programs: c.Programs, Full: c.Full, Rate: c.Rate, Duration: c.Duration},
	}
	return h.execute(ctx)
}

// heeded fails when a rate or a duration is asked for that none of the scenarios has a use
// for, or a rate at which one of them cannot be judged.
func (c *allFlags) heeded(scenarios []scenario.Scenario) error {
	if c.Rate != 0 && !slices.ContainsFunc(scenarios, rated) {
		return fmt.Errorf("--rate is for %s, which have a use for it", names(rated))
	}
	if c.Duration != 0 && !slices.ContainsFunc(scenarios, timed) {
		return fmt.Errorf("--duration is for %s, which have a use for it", names(timed))
	}
	for _, s := range scenarios {
		if c.Rate != 0 && c.Rate < s.Slowest {
			return fmt.Errorf("--rate: got %g, %s takes %g at the least", c.Rate, s.Name, s.Slowest)
		}
	}
	return nil
}

// programs is the directory of the built programs: dir, or where this one is.
func programs(dir string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	self, err := os.Executable()
	return filepath.Dir(self), err
}

// choose gives the scenarios of those names in the order of the report, all without a name,
// of those that are meant.
func choose(wanted []string, meant func(scenario.Scenario) bool) ([]scenario.Scenario, error) {
	var chosen []scenario.Scenario
	for _, s := range scenario.All() {
		if (len(wanted) == 0 || slices.Contains(wanted, s.Name)) && meant(s) {
			chosen = append(chosen, s)
		}
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(chosen, func(s scenario.Scenario) bool { return s.Name == name }) {
			return nil, fmt.Errorf("--scenario: got %q, takes %s", name, names(meant))
		}
	}
	return chosen, nil
}

func whatever(scenario.Scenario) bool { return true }

// anywhere says that it can be run against what it did not start.
func anywhere(s scenario.Scenario) bool { return s.Anywhere }

func rated(s scenario.Scenario) bool { return s.Rated }
func timed(s scenario.Scenario) bool { return s.Timed }

// names are those of the scenarios that are meant.
func names(meant func(scenario.Scenario) bool) string {
	var names []string
	for _, s := range scenario.All() {
		if meant(s) {
			names = append(names, s.Name)
		}
	}
	return strings.Join(names, ", ")
}

// harness runs scenarios and leaves a report in a directory.
type harness struct {
	scenarios []scenario.Scenario
	run       scenario.Run
	dir       string
	view      view
	about     report.Report              // its title, lead and words
	done      func(*report.Report) error // nil, or called before the verdict
}

// execute runs them all and gives the verdict.
func (h *harness) execute(ctx context.Context) error {
	r, err := h.runAll(ctx)
	h.view.close()
	if err != nil {
		return err
	}
	if h.done != nil {
		if err := h.done(r); err != nil {
			return err
		}
	}
	if err := h.view.verdict(r, filepath.Join(h.dir, pageName)); err != nil {
		return err
	}
	if !r.Right() {
		return errNotRight
	}
	return nil
}

// runAll writes the report after each scenario, so that what ran is not lost with what did
// not end.
func (h *harness) runAll(ctx context.Context) (*report.Report, error) {
	if err := os.MkdirAll(h.dir, 0o755); err != nil { //nolint:gosec // a report is there to be shown
		return nil, err
	}
	r := &report.Report{
		Schema: report.Schema, Title: h.about.Title, Lead: h.about.Lead, Words: h.about.Words, Started: time.Now(), Full: h.run.Full, Commit: version.Number(),
		Command: commandLine(os.Args), Machine: report.ThisMachine(ctx),
	}
	if h.run.Target == "" {
		r.Machine.Servers = testbed.Versions(ctx)
	}
	h.run.Live = h.view.live
	for _, s := range h.scenarios {
		result := s.Execute(ctx, &h.run)
		h.view.done(&result)
		r.Scenarios = append(r.Scenarios, result)
		r.Seconds, r.Interrupted = time.Since(r.Started).Seconds(), ctx.Err() != nil
		if err := h.write(r); err != nil || r.Interrupted {
			return r, err
		}
	}
	return r, nil
}

// password matches that of a URL, after its user.
var password = regexp.MustCompile(`(://[^/\s:@]*):[^/\s]*@`)

// commandLine is what was typed, but for passwords: reports are there to be shown.
func commandLine(args []string) string {
	return password.ReplaceAllString(strings.Join(args, " "), "$1:xxxxx@")
}

// The files of a report.
const (
	pageName = "index.html"
	dataName = "report.json"
)

func (h *harness) write(r *report.Report) error {
	if err := writeFile(filepath.Join(h.dir, dataName), func(f *os.File) error { return report.Write(f, r) }); err != nil {
		return err
	}
	return writeFile(filepath.Join(h.dir, pageName), func(f *os.File) error { return report.HTML(f, r) })
}

// writeFile replaces the file at path as a whole: what is there stays until the new one is
// complete.
func writeFile(path string, write func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
