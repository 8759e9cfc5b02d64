//go:build drill

package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"keypool/loadtest/controls"
	"keypool/loadtest/report"
)

// programTags are those that the programs are built with: these have failpoints.
const programTags = "drill"

// flaw is a way in which programs are broken, and the claims that must fail then.
type flaw struct {
	name    string
	without []string // the controls that shortener is built with (package controls)
	shorts  string   // environment of shortener
	kgs     string   // environment of kgs
	fails   []string
}

// The flaws that break any scenario in which links are made.
func flaws() []flaw {
	return []flaw{
		{name: "lost links", without: []string{"store"}, fails: []string{claimKept}},
		{name: "duplicate codes", without: []string{"once", "conflict"}, fails: []string{claimOnce, claimRight}},
	}
}

// Every scenario finds out programs that are broken on purpose, and finds nothing in
// programs with every protection.
func TestBrokenPrograms(t *testing.T) {
	t.Parallel()
	builder := controls.NewBuilder(t.TempDir())
	tests := map[string]struct {
		run   func(context.Context, *Run) (report.Scenario, error)
		flaws []flaw
		moody []string // claims that a busy machine fails too
	}{
		"create": {run: create, flaws: flaws(), moody: []string{claimSteadyP99, claimSteadyRate}},
		"mix":    {run: mix, flaws: flaws(), moody: []string{claimVisitP99}},
		"drain":  {run: smallDrain, flaws: flaws(), moody: []string{claimEmpty}},
		"outage": {
			run: smallOutage().run, moody: []string{claimLocal},
			flaws: append(flaws(),
				flaw{name: "no fallback", shorts: "FALLBACK=none", fails: []string{claimServed, claimTakeover}},
				flaw{name: "a worker that stays dead", kgs: "KEYPOOL_FAILPOINTS=epoch:opened=kill:2", fails: []string{claimRecovery}},
			),
		},
		"fallback": {
			run: fallbackPlan{length: 3, shares: shares(), tolerance: 0.1, fewest: 100, ledger: 50}.run,
			flaws: []flaw{
				{name: "lost links", without: []string{"store"}, fails: []string{claimKept, claimTold}},
				{name: "codes of other links", without: []string{"conflict"}, fails: []string{claimRight, claimAttempts(0.9)}},
				{name: "a biased draw", without: []string{"even"}, fails: []string{claimEven}},
			},
		},
		"scan": {
			run:   smallScan().run,
			flaws: []flaw{{name: "no permutation", shorts: "KGS_PERMUTE=false", fails: []string{claimUnguessed}}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario := Scenario{Name: name, Run: tt.run}
			mustHold(t, scenario.Execute(t.Context(), quiet()), tt.moody...)
			for _, f := range tt.flaws {
				t.Run(f.name, func(t *testing.T) {
					run := quiet()
					run.Programs = f.programs(t, builder)
					f.mustBeFound(t, scenario.Execute(t.Context(), run))
				})
			}
		})
	}
}

// smallDrain is the scenario "drain" in a few seconds.
func smallDrain(ctx context.Context, run *Run) (report.Scenario, error) {
	d := small()
	d.run.Programs = run.Programs
	err := d.execute(ctx)
	return d.Scenario, err
}

// programs is a directory of programs with the flaw.
func (f flaw) programs(t *testing.T, builder *controls.Builder) (dir string) {
	t.Helper()
	broken, err := builder.Build(t.Context(), f.without, "shortener")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	commands := map[string]string{
		"shortener": f.shorts + " exec " + filepath.Join(broken, "shortener"),
		"kgs":       f.kgs + " exec " + filepath.Join(programs, "kgs"),
	}
	for name, command := range commands {
		script := fmt.Sprintf("#!/bin/sh\n%s \"$@\"\n", command)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// mustBeFound fails unless the claims failed that must.
func (f flaw) mustBeFound(t *testing.T, s report.Scenario) {
	t.Helper()
	p := Part{s}
	for _, name := range f.fails {
		c := p.find(name)
		t.Logf("%s: %s: %s", c.Name, c.Verdict, c.Why)
		if c.Verdict != report.Failed {
			t.Errorf("with %s, %q is %s: %s; %s", f.name, c.Name, c.Verdict, c.Why, s.Error)
		}
	}
}
