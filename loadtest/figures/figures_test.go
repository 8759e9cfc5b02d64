package figures

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments"
	"keypool/loadtest/report"
)

const root = "../.."

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

func TestFiguresDocumentIsUpToDate(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	if err := Write(&want, root); err != nil {
		t.Fatal(err)
	}
	if read(t, "docs/figures.md") != want.String() {
		t.Error("docs/figures.md is not up to date: run `bin/loadtest figures > docs/figures.md`")
	}
}

func TestOftenMiscalculatedFiguresAreCorrect(t *testing.T) {
	t.Parallel()
	values := map[string]string{}
	for _, g := range Groups() {
		for _, f := range g.Figures {
			values[f.Subject] = f.Value
		}
	}
	for subject, want := range map[string]string{
		"1,000,000 in base 62, with the digits 0-9A-Za-z":     "`004C92`",
		"random codes with 10 million links":                  "f = 0.0176 %, 1.0002 attempts",
		"random codes with 40 billion links":                  "f = 70.4 %, 3.38 attempts",
		"random codes with 53 billion links":                  "f = 93.3 %, 14.9 attempts",
		"table of all codes of 6 characters":                  "341 GB",
		"the same with 64 characters":                         "412 GB",
		"100,000,000 keys last":                               "27.8 h",
		"20,000,000 keys last (20 %, restart)":                "5.6 h",
		"10,000,000 keys last (10 %, page)":                   "2.8 h",
		"5,000,000 keys last":                                 "83 min",
		"20 servers with 100 keys each last without Redis":    "2 s",
		"41 bits of milliseconds in a Snowflake number last":  "69.7 years",
		"any two of 10^15 UUIDs of 128 random bits are equal": "probability 1.5e-09",
	} {
		if values[subject] != want {
			t.Errorf("%s: %q, want %q", subject, values[subject], want)
		}
	}
}

func TestReferencesOfEachFigureExist(t *testing.T) {
	t.Parallel()
	for _, g := range Groups() {
		for _, f := range g.Figures {
			if len(f.Here) == 0 {
				t.Errorf("%s: no reference", f.Subject)
			}
			for _, r := range f.Here {
				if !exists(t, r) {
					t.Errorf("%s: %+v does not exist", f.Subject, r)
				}
			}
		}
	}
}

func exists(t *testing.T, r Reference) bool {
	t.Helper()
	switch {
	case r.Experiment != "":
		return slices.ContainsFunc(experiments.All(), func(e *experiment.Experiment) bool {
			return e.Name == r.Experiment && slices.ContainsFunc(e.Claims, func(c report.Claim) bool { return c.Name == r.Claim })
		})
	case r.File != "":
		return strings.Contains(read(t, r.File), "\nfunc "+r.Test+"(")
	}
	return strings.Contains(read(t, "docs/"+r.Document), "\n## "+r.Section+"\n")
}

func TestEveryPartOfKGSRefersToExistingFaultRows(t *testing.T) {
	t.Parallel()
	table := read(t, "docs/guarantees.md")
	for _, p := range Parts() {
		if p.Protects == "" || len(p.Rows) == 0 {
			t.Errorf("%s: no protection or no fault row", p.Name)
		}
		for _, row := range p.Rows {
			if !regexp.MustCompile(`(?m)^\| ` + row + ` \|`).MatchString(table) {
				t.Errorf("%s: docs/guarantees.md has no row %s", p.Name, row)
			}
		}
	}
}
