package main

import (
	"context"
	"errors"
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

// harness runs experiments and leaves a report in a directory.
type harness struct {
	runner   *experiment.Runner
	strict   bool // a speed claim that fails fails the run
	dir      string
	markdown string // a file, or ""
	view     view
}

// execute runs the experiments and returns errFailed when the report does not pass.
func (h *harness) execute(ctx context.Context, all []*experiment.Experiment) error {
	r, err := h.run(ctx, all)
	h.view.close()
	if err != nil {
		return err
	}
	if h.markdown != "" {
		if err := writeFile(h.markdown, func(f *os.File) error { return report.Markdown(f, r) }); err != nil {
			return err
		}
	}
	if err := h.view.verdict(r, filepath.Join(h.dir, pageName)); err != nil {
		return err
	}
	if !r.Passed() {
		return errFailed
	}
	return nil
}

// run writes the report after each experiment, so that an end in the middle loses nothing.
func (h *harness) run(ctx context.Context, all []*experiment.Experiment) (*report.Report, error) {
	if err := os.MkdirAll(h.dir, 0o755); err != nil { //nolint:gosec // a report is there to be shown
		return nil, err
	}
	r := &report.Report{
		Schema: report.Schema, Started: time.Now(), Full: h.runner.Full, Strict: h.strict, Commit: version.Number(),
		Command: commandLine(os.Args), Machine: report.ThisMachine(ctx),
	}
	if h.runner.Target == "" {
		r.Machine.Servers = lab.Versions(ctx)
	}
	var errs []error
	h.runner.Log, h.runner.Live = h.view.log, h.view.live
	h.runner.Done = func(e report.Experiment) {
		h.view.done(&e, h.strict)
		r.Experiments = append(r.Experiments, e)
		r.Seconds = time.Since(r.Started).Seconds()
		errs = append(errs, h.write(r))
	}
	h.runner.Run(ctx, all)
	r.Seconds, r.Interrupted = time.Since(r.Started).Seconds(), ctx.Err() != nil
	return r, errors.Join(append(errs, h.write(r))...)
}

func (h *harness) write(r *report.Report) error {
	return errors.Join(
		writeFile(filepath.Join(h.dir, dataName), func(f *os.File) error { return report.Write(f, r) }),
		writeFile(filepath.Join(h.dir, pageName), func(f *os.File) error { return report.HTML(f, r) }),
	)
}

// password matches the password of a URL, after its user.
var password = regexp.MustCompile(`(://[^/\s:@]*):[^/\s]*@`)

// commandLine is the command without passwords: reports are there to be shown.
func commandLine(args []string) string {
	return password.ReplaceAllString(strings.Join(args, " "), "$1:xxxxx@")
}

// writeFile replaces the file at path as a whole: the old one stays until the new one is
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
