package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"keypool/cmd/internal/version"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/report"
)

// The files of a report.
const (
	pageName = "index.html"
	dataName = "report.json"
)

// maxRate is the greatest value of the flag --rate, in requests per second. A single process cannot send
// requests at this rate.
const maxRate = 1_000_000

// common are the flags of every command that runs experiments.
type common struct {
	Rate     float64       `placeholder:"N" help:"Creations per second, or redirects per second for load/mix. By default each experiment has its own rate."`
	Duration time.Duration `placeholder:"D" help:"Duration of a steady load. By default each experiment has its own duration."`
	Strict   bool          `help:"Fail the run if a speed claim fails."`
	Report   string        `placeholder:"DIR" default:"loadtest/report" help:"Directory of index.html and report.json."`
	Markdown string        `placeholder:"FILE" help:"Also write the claims and tables as Markdown to this file."`
}

// execute runs the experiments and prints the verdict. It returns errFailed if the verdict is not PASS.
func (c *common) execute(ctx context.Context, out output, all []*experiment.Experiment, runner *experiment.Runner) error {
	if !(c.Rate >= 0 && c.Rate <= maxRate) || c.Duration < 0 {
		return fmt.Errorf("--rate must be from 0 to %d, and --duration not negative", maxRate)
	}
	runner.Rate, runner.Duration = c.Rate, c.Duration
	r, err := c.run(ctx, out, all, runner)
	if r == nil {
		return err
	}
	err = errors.Join(err, r.WriteText(out.stdout)) // the verdict is printed even if the report cannot be written
	if c.Markdown != "" {
		err = errors.Join(err, writeFile(c.Markdown, func(f *os.File) error { return report.Markdown(f, r) }))
	}
	if err == nil {
		_, err = fmt.Fprintf(out.stdout, "The report is %s.\n", filepath.Join(c.Report, pageName))
	}
	if !r.Passed() {
		err = errors.Join(err, errFailed)
	}
	return err
}

// run runs the experiments. It writes the report after each experiment, so that no result is lost if the run
// ends early. If the directory of the report cannot be created, run starts no experiment and returns no report.
func (c *common) run(ctx context.Context, out output, all []*experiment.Experiment, runner *experiment.Runner) (*report.Report, error) {
	if err := os.MkdirAll(c.Report, 0o755); err != nil { //nolint:gosec // other users may read a report
		return nil, err
	}
	r := &report.Report{
		Started: time.Now(), Full: runner.Full, Strict: c.Strict, Commit: version.Number(),
		Command: commandLine(os.Args), Machine: report.ThisMachine(ctx),
	}
	if runner.Target == "" {
		r.Machine.Servers = lab.Versions(ctx)
	}
	var errs []error
	shown := &progress{w: out.stderr, started: r.Started, due: make(map[string]time.Time)}
	runner.Log, runner.Live = shown.line, shown.live
	runner.Done = func(e report.Experiment) {
		shown.line(e.Line(c.Strict))
		r.Experiments = append(r.Experiments, e)
		r.Seconds = time.Since(r.Started).Seconds()
		errs = append(errs, c.write(r))
	}
	runner.Run(ctx, all)
	r.Seconds, r.Interrupted = time.Since(r.Started).Seconds(), ctx.Err() != nil
	return r, errors.Join(append(errs, c.write(r))...)
}

func (c *common) write(r *report.Report) error {
	return errors.Join(
		writeFile(filepath.Join(c.Report, dataName), func(f *os.File) error { return report.Write(f, r) }),
		writeFile(filepath.Join(c.Report, pageName), func(f *os.File) error { return report.HTML(f, r) }),
	)
}

// password matches the part "://USER:PASSWORD@" of a URL. Its group contains "://USER".
var password = regexp.MustCompile(`(://[^/\s:@]*):[^/\s]*@`)

// commandLine returns the command line without passwords, because a report may be published.
func commandLine(args []string) string {
	return password.ReplaceAllString(strings.Join(args, " "), "$1:xxxxx@")
}

// writeFile replaces the file at path with a file whose content write writes. The old file stays until the new file
// is complete.
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
