package fault

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// uncontrolled lists the rows that have no control, because their claims do not depend on a single
// protection.
var uncontrolled = []string{"fault/walk", "fault/start", "fault/startb", "fault/2x2"}

func TestEveryFaultRowHasControl(t *testing.T) {
	for _, e := range Experiments() {
		if len(e.Controls) == 0 && !slices.Contains(uncontrolled, e.Name) {
			t.Errorf("row %s has no control", e.Name)
		}
	}
}

func TestSuiteNamedChangeHasSevenFaultRows(t *testing.T) {
	var got []string
	for _, e := range Experiments() {
		if slices.Contains(e.Suites, experiment.Change) {
			got = append(got, e.Name)
		}
	}
	slices.Sort(got)
	if want := []string{"fault/10", "fault/11b", "fault/16", "fault/17", "fault/1b", "fault/3", "fault/8"}; !slices.Equal(got, want) {
		t.Errorf("the suite change has the rows %v, want %v", got, want)
	}
}

func TestClaimFailsIfObservationContradictsClaim(t *testing.T) {
	sound, reused := lab.Accounts{Closes: true}, lab.Accounts{Faults: []lab.Fault{{Kind: "reused"}}}
	checked := func(f loadtest.Findings) func(*run) {
		return func(r *run) { r.sawLinks(loadtest.Verdict{Findings: f}) }
	}
	audited := func(audits ...lab.Accounts) func(*run) {
		return func(r *run) {
			for _, a := range audits {
				r.sawAccounts(a)
			}
		}
	}
	stopped := func(age time.Duration, answer loadtest.Outcome) func(*run) {
		released := time.Now()
		before := loadtest.Entry{At: released.Add(-age), Outcome: loadtest.Outcome{State: loadtest.Intended}}
		after := loadtest.Entry{At: before.At, Outcome: answer}
		return func(r *run) { sawAnswers(r, []loadtest.Entry{before}, []loadtest.Entry{after}, released, released) }
	}
	refused := loadtest.Outcome{State: loadtest.Refused, Detail: "503 Service Unavailable", RetryAfter: "1"}
	claims := theLinks(observed(inProgress, ""), uninterrupted(progressKept, "", ""), keysAreUnique(), counted(keysKept, "keys", "No reserved key is missing from the accounts."), availableTo(99.9))
	for _, tt := range []struct {
		name    string
		observe func(*run)
		claim   string
		want    report.Outcome
	}{
		{"all links read back", checked(loadtest.Findings{Checked: 9}), kept, report.Held},
		{"one link lost", checked(loadtest.Findings{Checked: 9, Lost: 1}), kept, report.Failed},
		{"one link unreadable", checked(loadtest.Findings{Checked: 9, Unread: 1}), kept, report.Failed},
		{"one link wrong", checked(loadtest.Findings{Checked: 9, Wrong: 1}), right, report.Failed},
		{"one link stored twice", checked(loadtest.Findings{Checked: 9, Twice: 1}), once, report.Failed},
		{"link lost on one server only", func(r *run) {
			checked(loadtest.Findings{Checked: 9, Lost: 1})(r)
			checked(loadtest.Findings{Checked: 9})(r)
		}, kept, report.Failed},
		{"links not read back", func(*run) {}, kept, ""},
		{"the fault did not happen", func(r *run) { r.strike(-1); checked(loadtest.Findings{Checked: 9})(r) }, kept, ""},
		{"accounts close", audited(sound), closed, report.Held},
		{"accounts do not close", audited(lab.Accounts{}, sound), closed, report.Failed},
		{"no audit", func(*run) {}, closed, ""},
		{"the audit finds a reused key", audited(reused, sound), keysOnce, report.Failed},
		{"the audit finds a reused key but no missing key", audited(reused), keysKept, report.Held},
		{"availability at the bound", func(r *run) { r.record.Served = loadtest.Figures{Sent: 1000, Acknowledged: 999} }, available, report.Held},
		{"availability below the bound", func(r *run) { r.record.Served = loadtest.Figures{Sent: 999, Acknowledged: 998, Unsent: 1} }, available, report.Failed},
		{"no load", func(*run) {}, available, ""},
		{"a creation in progress is refused", stopped(refusableAge/2, refused), inProgress, report.Held},
		{"a creation in progress gets no answer", stopped(refusableAge, loadtest.Outcome{State: loadtest.Unknown}), inProgress, report.Failed},
		{"a young creation in progress is refused", stopped(refusableAge/2, refused), progressKept, report.Failed},
		{"an old creation in progress is refused", stopped(refusableAge, refused), progressKept, report.NotJudged},
	} {
		r := &run{record: &Record{Strikes: 1}}
		tt.observe(r)
		i := slices.IndexFunc(claims, func(c claim) bool { return c.Name == tt.claim })
		if got := claims[i].Judge(r.record).Outcome; got != tt.want {
			t.Errorf("%s: the outcome of the claim %q is %q, want %q", tt.name, tt.claim, got, tt.want)
		}
	}
}

func TestWorstObservationDecidesClaim(t *testing.T) {
	claims := []claim{observed("state", "The state is right."), timed("time", "It takes at most 5 s.")}
	for _, tt := range []struct {
		name    string
		observe func(*run)
		want    []report.Outcome
	}{
		{"no observation", func(*run) {}, []report.Outcome{"", ""}},
		{"all observations are right", func(r *run) { r.saw("state", true, "ok"); r.took("time", 5*time.Second, time.Second) }, []report.Outcome{report.Held, report.Held}},
		{"one of two states is wrong", func(r *run) { r.saw("state", false, "page"); r.saw("state", true, "ok") }, []report.Outcome{report.Failed, ""}},
		{"one of two times is too long", func(r *run) { r.took("time", 5*time.Second, 6*time.Second); r.took("time", 5*time.Second, time.Second) }, []report.Outcome{"", report.Failed}},
	} {
		r := &run{record: &Record{Strikes: 1}}
		tt.observe(r)
		for i, c := range claims {
			if got := c.Judge(r.record).Outcome; got != tt.want[i] {
				t.Errorf("%s: the outcome of the claim %q is %q, want %q", tt.name, c.Name, got, tt.want[i])
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("show accepted an observation of a claim that the row does not make")
		}
	}()
	show(&Record{seen: map[string]observation{"another": {}}}, &report.Experiment{})
}

// If the server was slow before the fault, the machine was busy, and the bound of the claim is high.
// Then a latency below the bound proves nothing, but a latency above the bound still refutes the claim.
func TestLatencyClaimDoesNotHoldIfServerWasSlowBeforeFault(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		before, without time.Duration
		small           bool
		want            report.Outcome
	}{
		{before: 10 * time.Millisecond, without: 20 * time.Millisecond, want: report.Held},
		{before: 10 * time.Millisecond, without: 21 * time.Millisecond, want: report.Failed},
		{before: busyLatency + time.Millisecond, without: busyLatency, want: report.NotJudged},
		{before: busyLatency + time.Millisecond, without: 3 * busyLatency, want: report.Failed},
		{before: 10 * time.Millisecond, without: 21 * time.Millisecond, small: true, want: report.NotJudged},
		{before: 10 * time.Millisecond}, // the run ended before the outage
	} {
		r := &Record{Strikes: 1, Worker: workerLatency{Before: tt.before, Without: tt.without, Small: tt.small}}
		if got := latencyWithoutWorker().Judge(r).Outcome; got != tt.want {
			t.Errorf("p99.9 %v before the fault and %v without the worker, small %t: the outcome is %q, want %q", tt.before, tt.without, tt.small, got, tt.want)
		}
	}
}
