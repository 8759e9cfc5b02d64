package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"keypool/loadtest/controls"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments"
	"keypool/loadtest/report"
)

// briefRun returns the arguments of a run against target that takes about two seconds.
func briefRun(target, dir string, more ...string) []string {
	return append([]string{"run", "--target", target, "--report", dir, "--rate=200", "--duration=50ms"}, more...)
}

func readBack(t *testing.T, dir string) *report.Report {
	t.Helper()
	r, err := readReport(filepath.Join(dir, dataName))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, pageName))
	if err != nil || !strings.Contains(string(page), "</html>") {
		t.Errorf("the page is missing or incomplete, error %v", err)
	}
	return r
}

func TestRunPrintsVerdictAndExitsWithMatchingStatus(t *testing.T) {
	t.Parallel()
	honest, forgetful := t.TempDir(), t.TempDir()
	var stdout, stderr strings.Builder
	if status := run(t.Context(), briefRun(startShortener(t, false, false), honest), &stdout, &stderr); status != exitPassed {
		t.Errorf("exit status %d of a sound service; output:\n%s%s", status, &stdout, &stderr)
	}
	if r := readBack(t, honest); !r.Passed() || len(r.Experiments) != 1 || r.Experiments[0].Name != "load/create" || r.Interrupted {
		t.Errorf("the report is %+v", r)
	}
	stdout.Reset()
	if status := run(t.Context(), briefRun(startShortener(t, true, false), forgetful), &stdout, &stderr); status != exitFailed {
		t.Errorf("exit status %d of a service that loses links", status)
	}
	if !strings.Contains(stdout.String(), "FAIL") || readBack(t, forgetful).Passed() {
		t.Errorf("output:\n%s", &stdout)
	}
	stdout.Reset()
	files := []string{"compare", filepath.Join(honest, dataName), filepath.Join(forgetful, dataName)}
	if status := run(t.Context(), files, &stdout, &stderr); status != exitPassed || !strings.Contains(stdout.String(), "no lost link") {
		t.Errorf("exit status %d of a comparison that prints:\n%s", status, &stdout)
	}
}

// trigger is an io.Writer that calls act when a written text contains word.
type trigger struct {
	mu   sync.Mutex
	word string
	act  func()
	all  strings.Builder
}

func (w *trigger) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all.Write(text); strings.Contains(string(text), w.word) {
		w.act()
	}
	return len(text), nil
}

// An interruption ends the load, and the report contains the observations until then.
func TestReportSaysThatRunWasInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stderr := &trigger{word: "per second", act: cancel}
	var stdout strings.Builder
	err := execute(ctx, briefRun(startShortener(t, false, false), dir, "--duration=1m"), output{&stdout, stderr})
	r := readBack(t, dir)
	if !errors.Is(err, errFailed) || !r.Interrupted || r.Passed() || len(r.Experiments) != 1 {
		t.Errorf("error %v, the report is %+v; output:\n%s", err, r, &stderr.all)
	}
}

// The system sends SIGPIPE for a write to a closed output, and for a write to a broken connection. The closed output
// ends the run, and the broken connection does not.
func TestRunEndsIfOutputIsClosedButNotIfConnectionBreaks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		duration    string
		act         func() error
		interrupted bool
	}{
		{"broken connection", "50ms", func() error { return syscall.Kill(os.Getpid(), syscall.SIGPIPE) }, false},
		{"broken output", "1m", func() error { return syscall.EPIPE }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var stdout strings.Builder
			stderr := writerFunc(func(text []byte) (int, error) { return len(text), tt.act() })
			run(t.Context(), briefRun(startShortener(t, false, false), dir, "--duration", tt.duration), &stdout, stderr)
			if r := readBack(t, dir); r.Interrupted != tt.interrupted {
				t.Errorf("interrupted = %t; output:\n%s", r.Interrupted, &stdout)
			}
		})
	}
}

// nohup makes a program ignore SIGHUP, so that the program survives a logout.
func TestHangupDoesNotEndRunThatIgnoresHangup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := append([]string{"-c", `trap "" HUP; exec "$0" "$@"`, os.Args[0]}, briefRun(startShortener(t, false, false), dir)...)
	child := exec.CommandContext(t.Context(), "sh", args...)
	child.Env = append(os.Environ(), asProgram+"=1")
	stderr := &trigger{word: "starting", act: func() { _ = child.Process.Signal(syscall.SIGHUP) }} // an error means that the run has ended
	child.Stderr = stderr
	if err := child.Run(); err != nil {
		t.Errorf("the program ended with %v; output:\n%s", err, &stderr.all)
	}
	if r := readBack(t, dir); r.Interrupted {
		t.Error("SIGHUP interrupted the run")
	}
}

type writerFunc func(text []byte) (int, error)

func (f writerFunc) Write(text []byte) (int, error) { return f(text) }

// A phase is shown when it begins. A second line about the same phase follows only after linePeriod.
func TestProgressShowsEachPhaseAtBeginningOfPhase(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	p := &progress{w: &b, started: time.Now(), due: make(map[string]time.Time)}
	steady := experiment.Live{Experiment: "load/create", Phase: "steady", Done: 0.5}
	p.live(steady)
	p.live(steady)
	p.live(experiment.Live{Experiment: "fault/1", Phase: "kill", Done: 0.1})
	want := "   0s  load/create      50 %  steady\n" +
		"   0s  fault/1          10 %  kill\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", &b, want)
	}
}

func TestCommandLineHidesPasswords(t *testing.T) {
	t.Parallel()
	got := commandLine([]string{"loadtest", "run", "--target=https://user:secret@host/"})
	if want := "loadtest run --target=https://user:xxxxx@host/"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Every experiment has a unique name, and every suite has experiments.
func TestExperimentNamesAreUniqueAndSuitesAreNotEmpty(t *testing.T) {
	t.Parallel()
	names, suites := make(map[string]bool), make(map[experiment.Suite]int)
	for _, e := range experiments.All() {
		if names[e.Name] {
			t.Errorf("experiment %s is listed twice", e.Name)
		}
		names[e.Name] = true
		for _, s := range e.Suites {
			suites[s]++
		}
	}
	if suites[experiment.Change] < 9 || suites[experiment.Nightly] < 50 || suites[experiment.Full] == 0 {
		t.Errorf("experiments by suite: %v", suites)
	}
}

func TestEveryControlNamesExistingProtections(t *testing.T) {
	t.Parallel()
	for _, e := range experiments.All() {
		for _, c := range e.Controls {
			for _, name := range c.Without {
				if _, err := controls.Find(name); err != nil {
					t.Errorf("experiment %s: %v", e.Name, err)
				}
			}
		}
	}
}

func TestEachExperimentIsInExactlyOneShare(t *testing.T) {
	t.Parallel()
	all := experiments.All()
	seen := make(map[string]int)
	for _, text := range []string{"1/3", "2/3", "3/3"} {
		some, err := share(all, text)
		if err != nil || len(some) < len(all)/3 {
			t.Fatalf("share %s: %d of %d experiments, error %v", text, len(some), len(all), err)
		}
		for _, e := range some {
			seen[e.Name]++
		}
	}
	for _, e := range all {
		if seen[e.Name] != 1 {
			t.Errorf("experiment %s is in %d shares, want 1", e.Name, seen[e.Name])
		}
	}
}
