package experiment

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"keypool/loadtest/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// record is what the experiments of these tests observe.
type record struct {
	links, lost int64
	p99         []float64
}

// sample is an experiment with a correctness claim and a speed claim.
func sample(run func(*T, *record), controls ...Control) *Experiment {
	return Define(Definition[record]{
		Name: "sample/one", Title: "A sample", Suites: []Suite{Nightly}, Run: run, Controls: controls,
		Claims: []Claim[record]{
			{Name: "kept", Text: "No link is lost.", Kind: report.Correctness, Judge: func(r *record) Verdict {
				if r.links == 0 {
					return Verdict{}
				}
				return None(r.lost, "%d of %d links are lost", r.lost, r.links)
			}},
			{Name: "p99", Text: "The p99 is at most 10 ms.", Unit: "ms", Kind: report.Speed, Judge: func(r *record) Verdict {
				if len(r.p99) == 0 {
					return Verdict{}
				}
				return AtMost(10, r.p99[0], "p99 %.0f ms", r.p99[0])
			}},
		},
	})
}

// run runs e and returns the report of e. build builds broken programs and returns their directory.
func run(ctx context.Context, t *testing.T, e *Experiment, build func(without []string) string) report.Experiment {
	t.Helper()
	var result report.Experiment
	runner(build, func(e report.Experiment) { result = e }).Run(ctx, []*Experiment{e})
	return result
}

// runner returns a runner. It runs controls if build is not nil.
func runner(build func(without []string) string, done func(report.Experiment)) *Runner {
	return &Runner{
		Options:  Options{Programs: "sound", Scale: 1, Log: func(string) {}, Live: func(Live) {}},
		Controls: build != nil,
		Build:    func(_ context.Context, without ...string) (string, error) { return build(without), nil },
		Done:     done,
		Parallel: 2,
		observe:  func() func() disturbance { return func() disturbance { return disturbance{} } }, // nothing keeps the machine busy
	}
}

func outcomes(claims []report.Claim) (all []report.Outcome) {
	for _, c := range claims {
		all = append(all, c.Outcome)
	}
	return all
}

func TestRecordDecidesOutcomeOfClaims(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		run   func(*T, *record)
		want  []report.Outcome
		error string
	}{
		{"both claims hold", func(_ *T, r *record) { *r = record{links: 5, p99: []float64{3}} }, []report.Outcome{report.Held, report.Held}, ""},
		{"no claim observed", func(*T, *record) {}, []report.Outcome{report.NotJudged, report.NotJudged}, `the run observed nothing for these claims: "kept", "p99"`},
		{"one claim not observed", func(_ *T, r *record) { r.links = 5 }, []report.Outcome{report.Held, report.NotJudged}, `the run observed nothing for these claims: "p99"`},
		{"links lost", func(_ *T, r *record) { *r = record{links: 5, lost: 1, p99: []float64{3}} }, []report.Outcome{report.Failed, report.Held}, ""},
		{"the run ends early", func(t *T, r *record) { r.links = 5; t.Fatalf("no database") }, []report.Outcome{report.Held, report.NotJudged}, "no database"},
		{"an error ends the run", func(t *T, _ *record) { t.Must(errors.New("no disk")); panic("went on") }, []report.Outcome{report.NotJudged, report.NotJudged}, "no disk"},
		{"the run refutes a claim", func(t *T, _ *record) { t.Refute("kept", "link %d is lost", 3) }, []report.Outcome{report.Failed, report.NotJudged}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := run(t.Context(), t, sample(tt.run), nil)
			if !slices.Equal(outcomes(got.Claims), tt.want) || got.Error != tt.error {
				t.Errorf("the claims are %+v and the error is %q, want the outcomes %v and the error %q", got.Claims, got.Error, tt.want, tt.error)
			}
		})
	}
}

func TestControlIsCaughtOnlyIfNamedClaimFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		run  func(*T, *record)
		want bool
	}{
		{"the named claim fails", func(_ *T, r *record) { r.links, r.lost = 5, 1 }, true},
		{"another claim fails", func(_ *T, r *record) { *r = record{links: 5, p99: []float64{99}} }, false},
		{"no claim fails", func(_ *T, r *record) { *r = record{links: 5, p99: []float64{3}} }, false},
		{"the run fails", func(t *T, _ *record) { t.Fatalf("no database") }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var built [][]string
			build := func(without []string) string { built = append(built, without); return "broken" }
			e := sample(func(x *T, r *record) {
				if x.ProgramDir() == "broken" {
					tt.run(x, r)
					return
				}
				*r = record{links: 5, p99: []float64{3}}
			}, Control{Without: []string{"commit"}, Refutes: "kept"})
			got := run(t.Context(), t, e, build)
			if len(got.Controls) != 1 || got.Controls[0].Caught != tt.want || got.Controls[0].Why == "" {
				t.Errorf("the controls are %+v, want one control with Caught = %v", got.Controls, tt.want)
			}
			if len(built) != 1 || !slices.Equal(built[0], []string{"commit"}) {
				t.Errorf("programs were built without the protections %+v, want one build without commit", built)
			}
		})
	}
}

// Each of the two controls waits until both controls have started, so the test ends only if the controls run in parallel.
// The experiment waits for both controls too. If it ran before the controls, it would wait for ever.
func TestControlsRunInParallelBeforeExperimentThatRunsAlone(t *testing.T) {
	t.Parallel()
	var both sync.WaitGroup
	both.Add(2)
	e := sample(func(x *T, r *record) {
		*r = record{links: 5, p99: []float64{3}}
		if x.ProgramDir() != "sound" {
			both.Done()
			r.lost = 1
		}
		both.Wait()
	}, Control{Without: []string{"commit"}, Refutes: "kept"}, Control{Without: []string{"store"}, Refutes: "kept"})
	e.Alone = true
	got := run(t.Context(), t, e, func([]string) string { return "broken" })
	if c := got.Controls; len(c) != 2 || c[0].Name != "without commit" || c[1].Name != "without store" || !c[0].Caught || !c[1].Caught {
		t.Errorf("the controls are %+v, want two caught controls in the order of their declaration", got.Controls)
	}
}

// The experiment and its control each wait until both have started.
func TestControlRunsInParallelWithItsExperiment(t *testing.T) {
	t.Parallel()
	var both sync.WaitGroup
	both.Add(2)
	e := sample(func(x *T, r *record) {
		*r = record{links: 5, p99: []float64{3}}
		if x.ProgramDir() != "sound" {
			r.lost = 1
		}
		both.Done()
		both.Wait()
	}, Control{Without: []string{"commit"}, Refutes: "kept"})
	got := run(t.Context(), t, e, func([]string) string { return "broken" })
	if c := got.Controls; len(c) != 1 || !c[0].Caught || got.Claims[0].Outcome != report.Held {
		t.Errorf("the report is %+v, want a claim that holds and a caught control", got)
	}
}

// The run ends while the control of the experiment runs. The experiment is reported once, without the control.
func TestInterruptedControlIsNotReported(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	e := sample(func(x *T, r *record) {
		*r = record{links: 5, p99: []float64{3}}
		if x.ProgramDir() != "sound" {
			interrupt()
		}
	}, Control{Without: []string{"commit"}, Refutes: "kept"})
	var reports []report.Experiment
	r := runner(func([]string) string { return "broken" }, func(e report.Experiment) { reports = append(reports, e) })
	r.Parallel = 1 // the control runs after the experiment
	r.Run(ctx, []*Experiment{e})
	if len(reports) != 1 || len(reports[0].Controls) != 0 || reports[0].Claims[0].Outcome != report.Held {
		t.Errorf("the reports are %+v, want one report with a claim that holds and without controls", reports)
	}
}

// The shipped programs have no failpoints, so a control that sets failpoints needs another
// build.
func TestControlWithFailpointsNeedsSeparateBuild(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]int{"KEYPOOL_FAILPOINTS=ship:begin=skip": 1, "FALLBACK=none": 0} {
		built := 0
		e := sample(func(*T, *record) {}, Control{Settings: []string{setting}, Refutes: "kept"})
		run(t.Context(), t, e, func([]string) string { built++; return "broken" })
		if built != want {
			t.Errorf("%s: the programs were built %d times, want %d", setting, built, want)
		}
	}
}

func TestExperimentRunsAgainIfOnlySpeedClaimsFail(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		records []record // records of the first and the second run
		runs    int
		want    []report.Outcome
	}{
		{"no claim fails", []record{{links: 1, p99: []float64{3}}}, 1, []report.Outcome{report.Held, report.Held}},
		{"the speed claim fails in the first run", []record{{links: 1, p99: []float64{30}}, {links: 1, p99: []float64{3}}}, 2, []report.Outcome{report.Held, report.Held}},
		{"the speed claim fails in both runs", []record{{links: 1, p99: []float64{30}}, {links: 1, p99: []float64{40}}}, 2, []report.Outcome{report.Held, report.Failed}},
		{"both claims fail", []record{{links: 1, lost: 1, p99: []float64{30}}}, 1, []report.Outcome{report.Failed, report.Failed}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			runs := 0
			got := run(t.Context(), t, sample(func(_ *T, r *record) { *r = tt.records[runs]; runs++ }), nil)
			if runs != tt.runs || !slices.Equal(outcomes(got.Claims), tt.want) {
				t.Errorf("the experiment ran %d times with the claims %+v, want %d times and the outcomes %v", runs, got.Claims, tt.runs, tt.want)
			}
		})
	}
}

func TestVerdictHoldsAtBoundAndFailsBeyondBound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		v    Verdict
		want report.Outcome
	}{
		{"Within the tolerance", Within(100, 101.9, 0.02), report.Held},
		{"Within above the tolerance", Within(100, 102.1, 0.02), report.Failed},
		{"Within below the tolerance", Within(100, 97.9, 0.02), report.Failed},
		{"AtMost at the bound", AtMost(10, 10, "why"), report.Held},
		{"AtMost above the bound", AtMost(10, 10.1, "why"), report.Failed},
		{"AtLeast at the bound", AtLeast(10, 10, "why"), report.Held},
		{"AtLeast below the bound", AtLeast(10, 9.9, "why"), report.Failed},
		{"None with 0", None(0, "why"), report.Held},
		{"None with 1", None(1, "why"), report.Failed},
		{"NotJudged", NotJudged("why"), report.NotJudged},
	} {
		if tt.v.Outcome != tt.want || tt.v.Why == "" {
			t.Errorf("%s: the outcome is %s because %q, want %s", tt.name, tt.v.Outcome, tt.v.Why, tt.want)
		}
	}
}

func TestRunCleansUpInReverseOrder(t *testing.T) {
	t.Parallel()
	var order []int
	run(t.Context(), t, sample(func(x *T, _ *record) {
		x.Cleanup(func() { order = append(order, 1) })
		x.Cleanup(func() { order = append(order, 2) })
		x.Fatalf("ends here")
	}), nil)
	if !slices.Equal(order, []int{2, 1}) {
		t.Errorf("the functions were called in the order %v, want the reverse order of their registration", order)
	}
}

func TestFailedRunShowsEndOfProgramLogs(t *testing.T) {
	t.Parallel()
	for _, failed := range []bool{false, true} {
		var shown []string
		r := Runner{Options: Options{Log: func(line string) { shown = append(shown, line) }, Live: func(Live) {}}, observe: func() func() disturbance { return func() disturbance { return disturbance{} } }}
		r.run(t.Context(), sample(func(t *T, _ *record) {
			dir := t.TempDir()
			t.Must(os.Symlink("nowhere", filepath.Join(dir, "kgs.log")))
			t.Must(os.WriteFile(filepath.Join(dir, "shortener.log"), []byte(strings.Repeat("x", logEnd)+"the last line"), 0o600))
			if failed {
				t.Fatalf("no answer")
			}
		}), Control{}, 1)
		all := strings.Join(shown, "\n")
		if strings.Contains(all, "the last line") != failed || len(all) > 2*logEnd {
			t.Errorf("failed %v: the run showed %q", failed, all)
		}
	}
}

func TestInterruptedRunReportsNoError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	got := run(ctx, t, sample(func(x *T, _ *record) { cancel(); x.Must(x.Context().Err()) }), nil)
	if got.Error != "" || !strings.Contains(got.Claims[0].Why, "interrupted") {
		t.Errorf("the report is %+v, want no error, and claims that name the interruption", got)
	}
}

func TestDefinePanicsOnInvalidDefinition(t *testing.T) {
	t.Parallel()
	hold := func(*record) Verdict { return Holds(true, "") }
	claim := Claim[record]{Name: "a", Text: "A.", Kind: report.Correctness, Judge: hold}
	for name, d := range map[string]Definition[record]{
		"no suite":                      {Claims: []Claim[record]{claim}},
		"no claim":                      {Suites: []Suite{Change}},
		"two claims with one name":      {Suites: []Suite{Change}, Claims: []Claim[record]{claim, claim}},
		"a claim without a kind":        {Suites: []Suite{Change}, Claims: []Claim[record]{{Name: "a", Text: "A.", Judge: hold}}},
		"a control that names no claim": {Suites: []Suite{Change}, Claims: []Claim[record]{claim}, Controls: []Control{{Refutes: "b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("Define did not panic")
				}
			}()
			Define(d)
		})
	}
}

func TestSelectReturnsExperimentsByNameGroupAndSuite(t *testing.T) {
	t.Parallel()
	all := []*Experiment{
		{Name: "fault/1", Suites: []Suite{Nightly}}, {Name: "fault/8", Suites: []Suite{Change, Nightly}}, {Name: "load/create", Suites: []Suite{Nightly}},
		{Name: "compare/load", Suites: []Suite{Nightly}},
	}
	for _, tt := range []struct {
		suite Suite
		names []string
		want  []int
	}{
		{"", nil, []int{0, 1, 2, 3}},
		{"", []string{"load"}, []int{2}},
		{Change, nil, []int{1}},
		{"", []string{"fault"}, []int{0, 1}},
		{"", []string{"create", "fault/1"}, []int{0, 2}},
		{Change, []string{"fault"}, []int{1}},
	} {
		got, err := Select(all, tt.suite, tt.names)
		if err != nil {
			t.Fatal(err)
		}
		var indexes []int
		for _, e := range got {
			indexes = append(indexes, slices.Index(all, e))
		}
		if !slices.Equal(indexes, tt.want) {
			t.Errorf("suite %q, names %v: Select returns the experiments %v, want %v", tt.suite, tt.names, indexes, tt.want)
		}
	}
	if _, err := Select(all, "", []string{"fault", "nothing"}); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("Select returns the error %v, want an error that contains the unknown name", err)
	}
}
