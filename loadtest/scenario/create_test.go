package scenario

import (
	"testing"
	"time"

	"keypool/loadtest/report"
)

// quiet is a run for tests: small, and telling nobody.
func quiet() *Run {
	return &Run{Programs: programs, Rate: 200, Duration: 300 * time.Millisecond, Live: func(Live) {}}
}

// execute runs the scenario of that name.
func execute(t *testing.T, name string, run *Run) report.Scenario {
	t.Helper()
	for _, s := range All() {
		if s.Name == name {
			return s.Execute(t.Context(), run)
		}
	}
	t.Fatalf("there is no scenario %s", name)
	return report.Scenario{}
}

// mustHold fails the test for every claim that does not hold, but for those that say how
// fast it is: a machine that is busy with tests is in no state to say.
func mustHold(t *testing.T, s report.Scenario, but ...string) {
	t.Helper()
	if s.Error != "" {
		t.Errorf("%s: %s", s.Name, s.Error)
	}
	left := make(map[string]bool)
	for _, name := range but {
		left[name] = true
	}
	for _, c := range s.Claims {
		if c.Verdict != report.Held && !left[c.Name] {
			t.Errorf("%s: %s: %s", c.Name, c.Verdict, c.Why)
		}
	}
}

// mustFail wants just these claims to have failed.
func mustFail(t *testing.T, s report.Scenario, names ...string) {
	t.Helper()
	want := make(map[string]bool)
	for _, name := range names {
		want[name] = true
	}
	for _, c := range s.Claims {
		if failed := c.Verdict == report.Failed; failed != want[c.Name] {
			t.Errorf("%s: %s: %s", c.Name, c.Verdict, c.Why)
		}
	}
}

func TestCreate(t *testing.T) {
	t.Parallel()
	s := execute(t, "create", quiet())
	mustHold(t, s, claimSteadyP99)
	if len(s.Charts) != 2 || len(s.Tables) != 1 {
		t.Errorf("%d charts and %d tables", len(s.Charts), len(s.Tables))
	}
}
