package schemes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"keypool/loadtest/report"
	"keypool/loadtest/scenario"
	"keypool/loadtest/testbed"

	"github.com/jackc/pgx/v5"
)

// small is a plan of some seconds, in which chance may be further off.
func small() plan {
	return plan{
		windows: 1, idle: 500 * time.Millisecond, rest: 100 * time.Millisecond, spaceLinks: 300, spaceExact: 0.2, crashes: 2, indexLinks: 20_000,
		before: 300 * time.Millisecond, half: 300 * time.Millisecond, after: 2 * time.Second,
	}
}

// compare makes a small comparison of the programs in the directory dir, which ends with the
// test.
func compare(t *testing.T, dir string, names ...string) *Comparison {
	t.Helper()
	c, err := New(Options{Programs: dir, Only: names, Rounds: 1, Each: time.Second})
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

// A scheme that is not what it says is found out, and one that does not run is told of.
func TestComparisonFindsOut(t *testing.T) {
	t.Parallel()
	c := compare(t, programs, "random")
	c.schemes = append(c.schemes,
		scheme{name: "liar", settings: []string{"KEY_SOURCE=ledger", "KGS_PERMUTE=false"}, class: "random"},
		scheme{name: "broken", settings: []string{"KEY_SOURCE=nothing"}, class: "random", service: true})
	c.found["liar"], c.found["broken"] = &findings{}, &findings{}
	codes := execute(t, c, "codes")[0]
	mustFail(t, codes, claimMeasured, claimClass, claimScatter)
	if cells := codes.Tables[0].Rows[2]; cells[0] != "broken" || cells[1] != unknown {
		t.Errorf("the row of what did not run is %q", cells)
	}
	mustBeLeft(t, c.stage, fmt.Sprintf("scheme_%d", c.stage.databases)) // that of the service of what is broken
	mustCountReserved(t, c.stage, c.runs[0])
	c.schemes = append(c.schemes[:1], c.schemes[2]) // without the liar it is over sooner
	c.runs = c.runs[:1]
	speed := execute(t, c, "speed")[0]
	mustFail(t, speed, claimMeasured)
	for _, s := range []report.Scenario{codes, speed} {
		for _, claim := range s.Claims {
			if claim.Name == claimMeasured && (!strings.Contains(claim.Why, "broken: ") || strings.Contains(claim.Why, "liar: ") || strings.Contains(claim.Why, "random: ")) {
				t.Errorf("%s says: %s", s.Name, claim.Why)
			}
		}
	}
}

// mustBeLeft fails the test unless nobody uses the database any more: what could not be
// started whole must not run on beside what is timed.
func mustBeLeft(t *testing.T, g *stage, database string) {
	t.Helper()
	users := 0
	err := testbed.Until(t.Context(), 20*time.Millisecond, 5*time.Second, func(ctx context.Context) (bool, error) {
		err := testbed.Query(ctx, g.postgres.URL, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = $1`, database).Scan(&users)
		})
		return users == 0, err
	})
	if err != nil {
		t.Errorf("%d connections to %s: %v", users, database, err)
	}
}

// An early end is no failure of a scheme.
func TestComparisonEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := compare(t, programs, "random")
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
