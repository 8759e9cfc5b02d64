package report

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func experiment(claims ...Claim) Experiment { return Experiment{Name: "e", Claims: claims} }

func claim(k Kind, o Outcome) Claim { return Claim{Name: "c", Kind: k, Outcome: o} }

func TestExperimentVerdictDependsOnClaimsAndControls(t *testing.T) {
	t.Parallel()
	held, broken := claim(Correctness, Held), experiment(claim(Correctness, Held))
	broken.Error = "no server"
	for name, tt := range map[string]struct {
		of            Experiment
		loose, strict Verdict
		says          string
	}{
		"all claims held":            {experiment(held, held), Pass, Pass, "2 of 2 claims hold"},
		"one claim held":             {experiment(held), Pass, Pass, "1 of 1 claim holds"},
		"no claims":                  {experiment(), Errored, Errored, "0 claims were judged"},
		"some claims not judged":     {experiment(held, claim(Correctness, NotJudged)), Pass, Pass, "1 of 2 claims hold, 1 not judged"},
		"no claim judged":            {experiment(claim(Correctness, NotJudged)), Errored, Errored, "0 of 1 claim holds, 1 not judged"},
		"a correctness claim failed": {experiment(held, claim(Correctness, Failed)), Fail, Fail, "1 of 2 claims hold, 1 failed"},
		"correctness inconclusive":   {experiment(claim(Correctness, Inconclusive)), Fail, Fail, "0 of 1 claim holds, 1 inconclusive"},
		"a claim without an outcome": {experiment(held, claim(Correctness, "")), Fail, Fail, "1 of 2 claims hold, 1 failed"},
		"a claim without a kind":     {experiment(claim("", Failed)), Fail, Fail, "0 of 1 claim holds, 1 failed"},
		"a speed claim failed":       {experiment(held, claim(Speed, Failed)), Pass, Fail, "1 of 2 claims hold, 1 failed"},
		"speed without an outcome":   {experiment(claim(Speed, "")), Pass, Fail, "0 of 1 claim holds, 1 failed"},
		"speed inconclusive":         {experiment(held, claim(Speed, Inconclusive)), Unsure, Unsure, "1 of 2 claims hold, 1 inconclusive"},
		"a bar missed":               {experiment(held, claim(Bar, Failed)), Pass, Pass, "1 of 1 claim holds; 0 of 1 bar holds, 1 missed"},
		"ended with an error":        {broken, Errored, Errored, "1 of 1 claim holds"},
		"a control caught":           {Experiment{Controls: []Control{{Caught: true}}}, Pass, Pass, "1 of 1 control was caught"},
		"only a control judged":      {Experiment{Claims: []Claim{claim(Correctness, NotJudged)}, Controls: []Control{{Caught: true}}}, Errored, Errored, "0 of 1 claim holds, 1 not judged; 1 of 1 control was caught"},
		"a control not caught":       {Experiment{Claims: []Claim{held}, Controls: []Control{{}}}, Fail, Fail, "1 of 1 claim holds; 0 of 1 control was caught"},
	} {
		if got := tt.of.Verdict(false); got != tt.loose {
			t.Errorf("%s: %s, want %s", name, got, tt.loose)
		}
		if got := tt.of.Verdict(true); got != tt.strict {
			t.Errorf("%s, strict: %s, want %s", name, got, tt.strict)
		}
		if got := tt.of.Sentence(); got != tt.says {
			t.Errorf("%s: %q, want %q", name, got, tt.says)
		}
	}
}

func TestReportVerdictDependsOnExperiments(t *testing.T) {
	t.Parallel()
	good, unsure := experiment(claim(Correctness, Held)), experiment(claim(Speed, Inconclusive))
	slow, bad := experiment(claim(Speed, Failed)), experiment(claim(Correctness, Failed))
	broken := Experiment{Error: "no server"}
	for name, tt := range map[string]struct {
		report Report
		want   Verdict
	}{
		"no experiment ran":                    {Report{}, Errored},
		"all experiments pass":                 {Report{Experiments: []Experiment{good, good}}, Pass},
		"one experiment is inconclusive":       {Report{Experiments: []Experiment{good, unsure}, Strict: true}, Pass},
		"a failed speed claim":                 {Report{Experiments: []Experiment{slow}}, Pass},
		"a failed speed claim in a strict run": {Report{Experiments: []Experiment{slow}, Strict: true}, Fail},
		"an error":                             {Report{Experiments: []Experiment{broken, good}}, Errored},
		"a failure":                            {Report{Experiments: []Experiment{good, broken, bad}}, Fail},
		"interrupted":                          {Report{Experiments: []Experiment{good}, Interrupted: true}, Errored},
		"interrupted after a failed claim":     {Report{Experiments: []Experiment{bad}, Interrupted: true}, Fail},
	} {
		if got := tt.report.Verdict(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
		if got := tt.report.Passed(); got != (tt.want == Pass) {
			t.Errorf("%s: Passed() = %v", name, got)
		}
	}
}

// If an experiment ended with an error, its claims that were not judged are not findings.
func TestFindingsAreSortedBySeverity(t *testing.T) {
	t.Parallel()
	var got []string
	for _, f := range sample().Findings() {
		got = append(got, f.Word+" "+f.Experiment+" "+f.Name)
	}
	want := []string{
		"FAIL drain page", "FAIL drain without the restart signal", "ERROR outage ", "INCONCLUSIVE create p99",
		"MISSES bars/create sqlite", "NOT JUDGED create durable",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the findings differ (-want +got):\n%s", d)
	}
	if slices.ContainsFunc(sample().Findings(), func(f Finding) bool { return f.Why == "" || f.Text == "" }) {
		t.Error("a finding has no text or no reason")
	}
}

func TestReportDescribesThisMachine(t *testing.T) {
	t.Parallel()
	m := ThisMachine(t.Context())
	if m.OS == "unknown" || m.OS == "" || m.CPU == "" || m.Cores < 1 || m.MemGiB < 1 || m.Go == "" {
		t.Errorf("the description of this machine is not complete: %+v", m)
	}
	t.Logf("%+v", m)
}
