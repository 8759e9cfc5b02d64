package schemes

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"keypool/loadtest/report"
	"keypool/loadtest/scenario"
)

// small is a plan of some seconds, in which chance may be further off.
func small() plan {
	return plan{
		windows: 1, idle: 500 * time.Millisecond, spaceLinks: 300, spaceExact: 0.2, crashes: 2, indexLinks: 20_000,
		before: 300 * time.Millisecond, half: 300 * time.Millisecond, after: 2 * time.Second,
	}
}

// compare makes a small comparison that ends with the test.
func compare(t *testing.T, names ...string) *Comparison {
	t.Helper()
	c, err := New(Options{Programs: programs, Only: names, Rounds: 1, Each: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	c.plan = small()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// execute runs the parts of those names.
func execute(t *testing.T, c *Comparison, names ...string) []report.Scenario {
	t.Helper()
	var results []report.Scenario
	for _, s := range c.Scenarios() {
		if len(names) > 0 && !slices.Contains(names, s.Name) {
			continue
		}
		got := s.Execute(t.Context(), &scenario.Run{Live: func(l scenario.Live) { t.Logf("%s: %s", l.Scenario, l.Phase) }})
		if got.Error != "" {
			t.Errorf("%s: %s", got.Name, got.Error)
		}
		t.Logf("%s took %.1f s", got.Name, got.Seconds)
		results = append(results, got)
	}
	return results
}

// mustFail fails the test unless just those claims failed.
func mustFail(t *testing.T, s report.Scenario, want ...string) {
	t.Helper()
	var failed []string
	for _, c := range s.Claims {
		if c.Verdict == report.Failed {
			failed = append(failed, c.Name)
			if !slices.Contains(want, c.Name) {
				t.Errorf("%s: it failed that %s: %s", s.Name, c.Name, c.Why)
			}
		}
	}
	for _, name := range want {
		if !slices.Contains(failed, name) {
			t.Errorf("%s: it did not fail that %s", s.Name, name)
		}
	}
}

// The whole of it, with a scheme that has a supply and one that has none.
func TestComparison(t *testing.T) {
	t.Parallel()
	c := compare(t, poolScheme, "random")
	results := execute(t, c)
	for _, s := range results {
		mustFail(t, s)
		if len(s.Tables) == 0 || s.Tally().Held == 0 {
			t.Errorf("%s: %d tables, %d claims held", s.Name, len(s.Tables), s.Tally().Held)
		}
	}
	overview := results[len(results)-1].Tables[0]
	for _, row := range overview.Rows {
		for i, cell := range row {
			if cell == unknown && row[0] == poolScheme {
				t.Errorf("%s of %s is not known", overview.Columns[i], row[0])
			}
		}
	}
	if f := c.found["random"]; f.space.attempts[2] < 5 {
		t.Errorf("chance takes %v attempts", f.space.attempts)
	}
}

// A scheme that is not what it says is found out, and one that does not run is told of.
func TestComparisonFindsOut(t *testing.T) {
	t.Parallel()
	c := compare(t, "random")
	c.schemes = append(c.schemes,
		scheme{name: "liar", settings: []string{"KEY_SOURCE=ledger", "KGS_PERMUTE=false"}, class: "random"},
		scheme{name: "broken", settings: []string{"KEY_SOURCE=nothing"}, class: "random"})
	c.found["liar"], c.found["broken"] = &findings{}, &findings{}
	got := execute(t, c, "codes")[0]
	mustFail(t, got, claimMeasured, claimClass, claimScatter)
	for _, claim := range got.Claims {
		if claim.Name == claimMeasured && (!strings.Contains(claim.Why, "broken: ") || strings.Contains(claim.Why, "liar: ")) {
			t.Errorf("it says: %s", claim.Why)
		}
	}
	if cells := got.Tables[0].Rows[2]; cells[0] != "broken" || cells[1] != unknown {
		t.Errorf("the row of what did not run is %q", cells)
	}
}

// An early end is no failure of a scheme.
func TestComparisonEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := compare(t, "random")
	ctx, cancel := context.WithCancel(t.Context())
	got := c.Scenarios()[0].Execute(ctx, &scenario.Run{Live: func(l scenario.Live) {
		if strings.Contains(l.Phase, "one after the other") {
			cancel()
		}
	}})
	if tally := got.Tally(); tally.Failed > 0 || tally.Held > 0 || got.Error != "" {
		t.Errorf("%+v, error %q", tally, got.Error)
	}
}

func TestPartsAreInTime(t *testing.T) {
	t.Parallel()
	sum := time.Duration(0)
	for _, p := range parts() {
		sum += p.lasts
	}
	if sum > Limit*4/5 {
		t.Errorf("all parts take %v, which is too near to %v", sum, Limit)
	}
}
