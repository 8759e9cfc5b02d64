package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestInvalidFlagsOfPlanAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ flag, takes string }{
		{"--creations=x", `got "x", takes a number from 0.001 to 10000000`},
		{"--creations=0", `got "0", takes a number from 0.001 to 10000000`},
		{"--creations=-1", `got "-1", takes a number from 0.001 to 10000000`},
		{"--creations=NaN", `got "NaN", takes a number from 0.001 to 10000000`},
		{"--creations=", `got "", takes a number from 0.001 to 10000000`},
		{"--years=1.5", `got "1.5", takes a whole number from 1 to 100`},
		{"--years=101", `got "101", takes a whole number from 1 to 100`},
		{"--servers=0", `got "0", takes a whole number from 1 to 1000000`},
		{"--outage=5", `got "5", takes a duration from 0s to 8760h, such as 90s or 8h`},
		{"--outage=-1s", `got "-1s", takes a duration from 0s to 8760h, such as 90s or 8h`},
		{"--redirects=Inf", `got "Inf", takes a number from 0 to 1000000000`},
		{"--capacity=99", `got "99", takes a whole number from 100 to 10000000000`},
		{"--code-length=2", `got "2", takes a whole number from 3 to 10`},
		{"--code-length=11", `got "11", takes a whole number from 3 to 10`},
		{"--night=9000h", `got "9000h", takes a duration from 0s to 8760h, such as 90s or 8h`},
		{"--zipf=4", `got "4", takes a number from 0 to 3`},
	} {
		var stdout, stderr strings.Builder
		status := run(t.Context(), []string{"plan", tt.flag}, &stdout, &stderr)
		name, _, _ := strings.Cut(tt.flag, "=")
		if want := "loadtest: " + name + ": " + tt.takes + "\n"; status != exitNotRun || stdout.Len() > 0 || stderr.String() != want {
			t.Errorf("%s: status %d, output %q, standard error %q, want %q", tt.flag, status, &stdout, &stderr, want)
		}
	}
	// The error about a flag without a value, or about an unknown flag, is one line too.
	for _, args := range [][]string{{"plan", "--creations"}, {"plan", "--creations", "-5"}, {"plan", "--nothing"}} {
		var stdout, stderr strings.Builder
		status := run(t.Context(), args, &stdout, &stderr)
		if status != exitNotRun || strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), args[1]) {
			t.Errorf("%v: status %d, standard error %q", args, status, &stderr)
		}
	}
}

func TestPlanCommandWritesJSONAndHTMLPage(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "plan.html")
	var stdout, stderr strings.Builder
	args := strings.Fields("plan --json --creations 5e4 --years 2 --servers 200 --outage 1m30s --redirects 5e6 --capacity 1e9 --code-length 7 --night 6h --zipf 1 --page " + page)
	if status := run(t.Context(), args, &stdout, &stderr); status != exitPassed || stderr.Len() > 0 {
		t.Fatalf("status %d, standard error %q", status, &stderr)
	}
	var got struct {
		Input  map[string]float64
		Spaces []struct{ Length int }
	}
	if err := json.Unmarshal([]byte(stdout.String()), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"creations_per_second": 50_000, "years": 2, "servers": 200, "outage_seconds": 90, "redirects_per_second": 5e6,
		"capacity_keys": 1e9, "code_length": 7, "night_seconds": 21_600, "zipf_exponent": 1,
	} {
		if got.Input[name] != want {
			t.Errorf("%s is %v, want %v", name, got.Input[name], want)
		}
	}
	if len(got.Spaces) != 4 || got.Spaces[0].Length != 7 {
		t.Errorf("spaces %+v", got.Spaces)
	}
	content, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(content), "<svg") || !strings.Contains(string(content), "</html>") {
		t.Errorf("error %v, the page is %.100s", err, content)
	}
	stdout.Reset()
	if status := run(t.Context(), []string{"plan", "--page", filepath.Join(page, "below-a-file")}, &stdout, &stderr); status != exitNotRun || stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), "loadtest: --page: ") {
		t.Errorf("status %d of a page that cannot be written, output %q, standard error %q", status, &stdout, &stderr)
	}
}

// docs/capacity.md contains the output that the program prints for each example.
func TestExamplesInCapacityDocumentationAreUpToDate(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../docs/capacity.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```\n\\$ bin/loadtest (.*?)\n(.*?)```").FindAllStringSubmatch(string(document), -1)
	if len(examples) == 0 {
		t.Fatal("docs/capacity.md has no example")
	}
	for _, example := range examples {
		var stdout, stderr strings.Builder
		if status := run(t.Context(), strings.Fields(example[1]), &stdout, &stderr); status != exitPassed || stdout.String() != example[2] {
			t.Errorf("%s: status %d, standard error %q, output\n%s", example[1], status, &stderr, &stdout)
		}
	}
}
