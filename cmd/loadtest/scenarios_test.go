package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"keypool/loadtest/report"
	"keypool/loadtest/scenario"
)

// brief are the arguments of a run of scenarios that takes a second or two.
func brief(target, dir string, more ...string) []string {
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
		t.Errorf("there is no whole page, error %v", err)
	}
	return r
}

func TestScenariosLeaveAReport(t *testing.T) {
	t.Parallel()
	honest, forgetful := t.TempDir(), t.TempDir()
	var stdout, stderr strings.Builder
	if status := run(brief(start(t, false, false), honest, "--scenario=create"), &stdout, &stderr); status != exitRight {
		t.Errorf("exit status %d of a service that keeps its word; it said:\n%s%s", status, &stdout, &stderr)
	}
	if r := readBack(t, honest); !r.Right() || len(r.Scenarios) != 1 || r.Scenarios[0].Name != "create" || r.Interrupted {
		t.Errorf("the report is %+v", r)
	}
	if !strings.Contains(stderr.String(), "create") || !strings.Contains(stdout.String(), "nothing failed, 1 of 6 claims not judged") {
		t.Errorf("it said:\n%s%s", &stdout, &stderr)
	}
	stdout.Reset()
	if status := run(brief(start(t, true, false), forgetful, "--scenario=create"), &stdout, &stderr); status != exitNotRight {
		t.Errorf("exit status %d of a service that forgets", status)
	}
	if !strings.Contains(stdout.String(), "FAILED") || readBack(t, forgetful).Right() {
		t.Errorf("it said:\n%s", &stdout)
	}
	stdout.Reset()
	files := []string{filepath.Join(honest, dataName), filepath.Join(forgetful, dataName)}
	if status := run(append([]string{"compare"}, files...), &stdout, &stderr); status != exitRight || !strings.Contains(stdout.String(), "no lost link") {
		t.Errorf("exit status %d of a comparison that says:\n%s", status, &stdout)
	}
}

// A deployment is not loaded beyond the rate that was asked for unless that is asked for too,
// and no password of it is in the report.
func TestScenariosSpareTheTarget(t *testing.T) {
	t.Parallel()
	target := strings.Replace(start(t, false, false), "http://", "http://somebody:secret@", 1)
	for _, climb := range []bool{false, true} {
		args, dir := []string{"--scenario=create"}, t.TempDir()
		if climb {
			args = append(args, "--climb")
		}
		var stdout, stderr strings.Builder
		if status := run(brief(target, dir, args...), &stdout, &stderr); status != exitRight {
			t.Errorf("exit status %d; it said:\n%s%s", status, &stdout, &stderr)
		}
		r := readBack(t, dir)
		if steps := len(r.Scenarios[0].Tables[0].Rows); (steps > 1) != climb {
			t.Errorf("--climb %v: %d rates", climb, steps)
		}
		if got := r.Scenarios[0].Settings["target"]; !strings.HasPrefix(got, "http://somebody:xxxxx@") {
			t.Errorf("the target is %s", got)
		}
	}
	if got := commandLine([]string{"loadtest", "run", "--target=" + target}); strings.Contains(got, "secret") || !strings.Contains(got, "somebody:xxxxx@127.0.0.1") {
		t.Errorf("the command is %s", got)
	}
}

// Each line is an object with one member that says what it is.
func TestScenariosAsJSON(t *testing.T) {
	t.Parallel()
	var stdout, stderr strings.Builder
	if status := run(brief(start(t, false, false), t.TempDir(), "--scenario=create", "--json"), &stdout, &stderr); status != exitRight {
		t.Errorf("exit status %d; it said:\n%s", status, &stderr)
	}
	kinds := make(map[string]int)
	lines := bufio.NewScanner(strings.NewReader(stdout.String()))
	for lines.Scan() {
		var record map[string]json.RawMessage
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil || len(record) != 1 {
			t.Errorf("%s: error %v", lines.Text(), err)
		}
		for kind := range record {
			kinds[kind]++
		}
	}
	if kinds["live"] == 0 || kinds["scenario"] != 1 || kinds["verdict"] != 1 {
		t.Errorf("lines by kind: %v", kinds)
	}
}

// trigger calls act when what is written to it contains word.
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

// An interruption ends the load, and the report has what was seen until then.
func TestInterruptionIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stderr := &trigger{word: "steady", act: cancel}
	var stdout strings.Builder
	err := execute(ctx, brief(start(t, false, false), dir, "--scenario=mix,create", "--duration=1m"), output{&stdout, stderr})
	r := readBack(t, dir)
	if !errors.Is(err, errNotRight) || !r.Interrupted || r.Right() || len(r.Scenarios) != 1 || verdictOf(r, "no lost link") != report.Held || verdictOf(r, "every redirect right") == report.Held {
		t.Errorf("error %v, the report is %+v", err, r)
	}
	if !strings.Contains(stdout.String(), "ended early") {
		t.Errorf("it said:\n%s%s", &stdout, &stderr.all)
	}
}

// verdictOf is that of the first claim of this name.
func verdictOf(r *report.Report, name string) report.Verdict {
	for i := range r.Scenarios {
		for _, c := range r.Scenarios[i].Claims {
			if c.Name == name {
				return c.Verdict
			}
		}
	}
	return ""
}

func TestBars(t *testing.T) {
	t.Parallel()
	var stderr strings.Builder
	v := newBars(output{stderr: &stderr}, scenario.All())
	pool, runway := int64(812_345), 812*time.Second
	v.live(scenario.Live{Scenario: "create", Phase: "steady", Done: 0.5, Rate: 1000, P99: 4 * time.Millisecond, PoolKeys: &pool, Runway: &runway})
	v.done(&report.Scenario{Name: "mix", Claims: []report.Claim{{Verdict: report.Held}, {Verdict: report.Failed}}})
	v.close()
	for _, want := range []string{"steady · 1000/s · p99 4.0 ms · pool 812345 · runway 13 min 32 s", "1 of 2 claims held, 1 FAILED", "drain"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("it does not show %q:\n%s", want, &stderr)
		}
	}
}
