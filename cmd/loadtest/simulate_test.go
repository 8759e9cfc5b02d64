package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestInvalidFlagsOfSimulationAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ flag, takes string }{
		{"--servers=0", `got "0", takes a whole number from 1 to 10000`},
		{"--keys=x", `got "x", takes a whole number from 1 to 1000000000`},
		{"--duration=59s", `got "59s", takes a duration from 1m to 168h`},
		{"--duration=169h", `got "169h0m0s", takes a duration from 1m to 168h`},
		{"--peak=2.1", `got "2.1", takes a number from 1 to 2`},
		{"--capacity=99", `got "99", takes a whole number from 100 to 1000000000`},
		{"--batch-min=0", `got "0", takes a whole number from 1 to 1000000`},
		{"--outage=7h", `got "7h0m0s", takes at most a quarter of --duration, which is 6h0m0s`},
		{"--worker-outage=7h", `got "7h0m0s", takes at most a quarter of --duration, which is 6h0m0s`},
		{"--deploy=7h", `got "7h0m0s", takes at most a quarter of --duration, which is 6h0m0s`},
		{"--seed=-1", `got "-1", takes a whole number from 0 to 1000000000`},
		{"--page=.", `got ".", takes a file in a folder that exists`},
		{"--page=no-folder/page.html", `got "no-folder/page.html", takes a file in a folder that exists`},
	} {
		var stdout, stderr strings.Builder
		status := run(t.Context(), []string{"simulate", tt.flag}, &stdout, &stderr)
		name, _, _ := strings.Cut(tt.flag, "=")
		if want := "loadtest: " + name + ": " + tt.takes + "\n"; status != exitNotRun || stdout.Len() > 0 || stderr.String() != want {
			t.Errorf("%s: status %d, output %q, standard error %q, want %q", tt.flag, status, &stdout, &stderr, want)
		}
	}
}

func TestDefaultOutageOfSimulationLastsAtMostQuarterOfDuration(t *testing.T) {
	t.Parallel()
	none, day := durationFlag(0), 24*time.Hour
	for _, tt := range []struct {
		flags simulateFlags
		want  [3]time.Duration // the outage of Redis, the outage of the workers, the deploy
	}{
		{simulateFlags{Duration: durationFlag(day)}, [3]time.Duration{5 * time.Minute, time.Hour, 10 * time.Minute}},
		{simulateFlags{Duration: durationFlag(time.Hour)}, [3]time.Duration{5 * time.Minute, 15 * time.Minute, 10 * time.Minute}},
		{simulateFlags{Duration: durationFlag(day), Outage: &none, WorkerOutage: &none, Deploy: &none}, [3]time.Duration{}},
	} {
		in, err := tt.flags.input()
		got := [3]time.Duration{seconds(in.Outage), seconds(in.WorkerOutage), seconds(in.Deploy)}
		if err != nil || got != tt.want {
			t.Errorf("%v: %v, error %v, want %v", time.Duration(tt.flags.Duration), got, err, tt.want)
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func TestSimulateCommandWritesJSONAndHTMLPage(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "simulation.html")
	var stdout, stderr strings.Builder
	args := strings.Fields("simulate --json --servers 5 --keys 20000 --duration 20m --capacity 5000 --batch-min 50 --peak 1.5 --outage 1m --worker-outage 30s --deploy 0s --seed 7 --page " + page)
	if status := run(t.Context(), args, &stdout, &stderr); status != exitPassed || stderr.Len() > 0 {
		t.Fatalf("status %d, standard error %q", status, &stderr)
	}
	var got struct {
		Input         map[string]float64
		Totals        struct{ Creations int64 }
		AccountsClose bool            `json:"accounts_close"`
		Deploy        json.RawMessage // absent with --deploy 0s
	}
	if err := json.Unmarshal([]byte(stdout.String()), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"servers": 5, "creations": 20_000, "duration_seconds": 1200, "capacity_keys": 5000, "batch_keys_min": 50, "peak_ratio": 1.5,
		"outage_seconds": 60, "worker_outage_seconds": 30, "deploy_seconds": 0, "seed": 7,
	} {
		if got.Input[name] != want {
			t.Errorf("%s is %v, want %v", name, got.Input[name], want)
		}
	}
	if got.Totals.Creations != 20_000 || !got.AccountsClose || got.Deploy != nil {
		t.Errorf("%+v", got)
	}
	content, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(content), "<svg") {
		t.Errorf("error %v, the page is %.100s", err, content)
	}
}
