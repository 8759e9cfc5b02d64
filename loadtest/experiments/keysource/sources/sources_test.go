package sources

import (
	"errors"
	"regexp"
	"slices"
	"testing"

	"keypool/loadtest"
	"keypool/loadtest/report"
)

func TestEveryKeySourceIsCompleteAndListedOnce(t *testing.T) {
	var names []string
	for _, s := range All() {
		if slices.Contains(names, s.Name) || s.Class == "" || s.Label == "" {
			t.Errorf("the key source %+v is incomplete or listed twice", s)
		}
		names = append(names, s.Name)
		if _, err := regexp.Compile(s.Code); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
	if n := len(Compared()); n != len(names)-1 {
		t.Errorf("%d of %d key sources are compared, want all except one", n, len(names))
	}
}

func TestObservedRecordsFailuresAndSumAddsVerdicts(t *testing.T) {
	o := &Observed{}
	all := []*Running{{Source: Source{Name: "a"}}, {Source: Source{Name: "b"}}}
	well := o.Each(all, func(r *Running) error {
		if r.Name == "a" {
			return errors.New("refused")
		}
		return nil
	})
	if len(well) != 1 || well[0] != all[1] || !slices.Equal(o.Failed, []string{"a: refused"}) {
		t.Errorf("Each returns the servers %v and records the failures %q, want one server and one failure", well, o.Failed)
	}
	judge := EachMeasured(func(o *Observed) *Observed { return o }).Judge
	if got := judge(&Observed{}).Outcome; got != "" {
		t.Errorf("the outcome of an incomplete run is %q, want none", got)
	}
	for _, o.Complete = range []bool{false, true} {
		if got := judge(o).Outcome; got != report.Failed {
			t.Errorf("the outcome with an unmeasured key source is %q, want %q", got, report.Failed)
		}
	}
	var sum *loadtest.Verdict
	for n := range int64(3) {
		sum = Sum(sum, loadtest.Verdict{
			Figures:  loadtest.Figures{Sent: 2, Acknowledged: 1, Unknown: 1},
			Findings: loadtest.Findings{Checked: 1, Lost: n, Wrong: n, Twice: n, Unread: n},
		})
	}
	if sum.Sent != 6 || sum.Checked != 3 || sum.Lost != 3 || sum.Wrong != 3 || sum.Twice != 3 || sum.Unread != 3 {
		t.Errorf("the sum of three verdicts is %+v", sum)
	}
}
