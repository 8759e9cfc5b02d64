package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keypool/loadtest/report"
)

// Of a run the last tables are printed, and all of them are written where that is asked for.
func TestSchemesTables(t *testing.T) {
	t.Parallel()
	part := func(name string) report.Scenario {
		return report.Scenario{Name: name, Title: "Part " + name, Tables: []report.Table{
			{Title: "Table of " + name, Columns: []string{"scheme"}, Rows: [][]string{{"row of " + name}}},
		}}
	}
	whole := &report.Report{Title: "Schemes", Scenarios: []report.Scenario{part("speed"), part("summary")}}
	interrupted := &report.Report{Title: "Schemes", Interrupted: true, Scenarios: []report.Scenario{part("speed")}}
	tests := []struct {
		name           string
		report         *report.Report
		json           bool
		print, written []string // rows
	}{
		{"to the end", whole, false, []string{"summary"}, []string{"speed", "summary"}},
		{"as JSON", whole, true, nil, []string{"speed", "summary"}},
		{"interrupted", interrupted, false, []string{"speed"}, []string{"speed"}},
		{"nothing ran", &report.Report{Interrupted: true}, false, nil, nil},
	}
	for _, tt := range tests {
		for _, file := range []string{"", filepath.Join(t.TempDir(), "compare.md")} {
			var stdout strings.Builder
			c := schemesFlags{Markdown: file, JSON: tt.json}
			if err := c.tables(output{stdout: &stdout}, tt.report); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			mustTell(t, tt.name+", printed", stdout.String(), tt.print)
			if file == "" {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			mustTell(t, tt.name+", written", string(text), tt.written)
		}
	}
}

// mustTell fails unless the text has the rows of these parts, and of no other.
func mustTell(t *testing.T, what, text string, parts []string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, "row of "+part) {
			t.Errorf("%s: there is no row of %s in\n%s", what, part, text)
		}
	}
	if got := strings.Count(text, "row of "); got != len(parts) {
		t.Errorf("%s: %d rows, want %d in\n%s", what, got, len(parts), text)
	}
}

// A file that cannot be written is an error.
func TestSchemesTablesWithoutAPlace(t *testing.T) {
	t.Parallel()
	c := schemesFlags{Markdown: filepath.Join(t.TempDir(), "nowhere", "compare.md")}
	if err := c.tables(output{stdout: &strings.Builder{}}, &report.Report{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want that there is no such directory", err)
	}
}
