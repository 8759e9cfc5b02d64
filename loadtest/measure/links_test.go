package measure

import (
	"slices"
	"testing"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/report"
)

// Each fault refutes only the claim about this fault. If links were not read back, no claim about
// links holds.
func TestEachFaultFoundInLinksFailsOneClaim(t *testing.T) {
	t.Parallel()
	of := func(f loadtest.Findings) *loadtest.Verdict {
		return &loadtest.Verdict{Figures: loadtest.Figures{Sent: 3, Acknowledged: 3}, Findings: f}
	}
	all := []string{NoLostLink, NoWrongLink, NoCodeTwice}
	tests := []struct {
		name     string
		verdict  *loadtest.Verdict
		failed   string
		unjudged []string
	}{
		{"sound", of(loadtest.Findings{Checked: 3}), "", nil},
		{"unsent", &loadtest.Verdict{
			Figures: loadtest.Figures{Sent: 2, Acknowledged: 2, Unsent: 1}, Findings: loadtest.Findings{Checked: 2},
		}, NoFailedCreation, nil},
		{"one link lost", of(loadtest.Findings{Checked: 3, Lost: 1}), NoLostLink, nil},
		{"one link wrong", of(loadtest.Findings{Checked: 3, Wrong: 1}), NoWrongLink, nil},
		{"one duplicate", of(loadtest.Findings{Checked: 3, Twice: 1}), NoCodeTwice, nil},
		{"one link unread", of(loadtest.Findings{Checked: 3, Unread: 1}), NoLostLink, []string{NoWrongLink, NoCodeTwice}},
		{"no link read back", of(loadtest.Findings{}), "", all},
		{"not all links read back", of(loadtest.Findings{Checked: 2}), "", all},
		{"not all links read back and one lost", of(loadtest.Findings{Checked: 2, Lost: 1}), NoLostLink, []string{NoWrongLink, NoCodeTwice}},
		{"no link acknowledged", &loadtest.Verdict{Figures: loadtest.Figures{Sent: 3, Refused: 3}}, NoFailedCreation, all},
		{"no check", nil, "", append([]string{NoFailedCreation}, all...)},
	}
	for _, tt := range tests {
		for _, c := range Accounts("No creation fails.", func(v **loadtest.Verdict) *loadtest.Verdict { return *v }) {
			want := report.Held
			switch {
			case c.Name == tt.failed:
				want = report.Failed
			case slices.Contains(tt.unjudged, c.Name):
				want = report.NotJudged
			}
			v := c.Judge(&tt.verdict)
			if v == (experiment.Verdict{}) {
				v.Outcome = report.NotJudged
			}
			if v.Outcome != want {
				t.Errorf("%s: claim %q is %s, want %s", tt.name, c.Name, v.Outcome, want)
			}
		}
	}
}

func TestFailureNotesDescribeFirstFailuresOfEachState(t *testing.T) {
	t.Parallel()
	var entries []loadtest.Entry
	for range 2 * shownFailures {
		for _, state := range []loadtest.State{loadtest.Acknowledged, loadtest.Refused, loadtest.Unknown} {
			entries = append(entries, loadtest.Entry{Outcome: loadtest.Outcome{State: state, Detail: "why"}})
		}
	}
	if notes := FailureNotes(entries); len(notes) != 2*shownFailures {
		t.Errorf("there are %d notes, want %d: %q", len(notes), 2*shownFailures, notes)
	}
}
