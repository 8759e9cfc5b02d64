package scenario

import (
	"slices"
	"testing"

	"keypool/loadtest"
	"keypool/loadtest/report"
)

// Each way to judge holds where it ought to, and fails right beside.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		judge func(*Part)
		want  report.Verdict
	}{
		{"within", func(p *Part) { p.Within("c", 100, 101.9, 0.02) }, report.Held},
		{"beyond", func(p *Part) { p.Within("c", 100, 102.1, 0.02) }, report.Failed},
		{"short of", func(p *Part) { p.Within("c", 100, 97.9, 0.02) }, report.Failed},
		{"at most", func(p *Part) { p.AtMost("c", 10, 10) }, report.Held},
		{"more", func(p *Part) { p.AtMost("c", 10, 10.1) }, report.Failed},
		{"at least", func(p *Part) { p.AtLeast("c", 10, 10) }, report.Held},
		{"less", func(p *Part) { p.AtLeast("c", 10, 9.9) }, report.Failed},
		{"none", func(p *Part) { p.None("c", 0, "none") }, report.Held},
		{"one", func(p *Part) { p.None("c", 1, "one") }, report.Failed},
		{"never judged", func(*Part) {}, report.NotJudged},
		{"cannot be judged", func(p *Part) { p.CannotJudge("c", "why") }, report.NotJudged},
		{"none is judged", func(p *Part) { p.judgeNone("why") }, report.NotJudged},
		{"none but those that were", func(p *Part) { p.AtMost("c", 1, 2); p.judgeNone("why") }, report.Failed},
	}
	for _, tt := range tests {
		var p Part
		p.Claim("c", "A claim.", "s")
		tt.judge(&p)
		if got := p.Claims[0]; got.Verdict != tt.want || got.Why == "" {
			t.Errorf("%s: %s because %q, want %s", tt.name, got.Verdict, got.Why, tt.want)
		}
	}
}

// Each way in which accounts may not close fails the claim that it is about, and no other;
// and links that nobody read back are no evidence that they are kept.
func TestAccountsFail(t *testing.T) {
	t.Parallel()
	sent := loadtest.Figures{Sent: 3, Acknowledged: 3}
	of := func(f loadtest.Findings) loadtest.Verdict { return loadtest.Verdict{Figures: sent, Findings: f} }
	links := []string{claimKept, claimRight, claimOnce}
	tests := []struct {
		name     string
		verdict  loadtest.Verdict
		failed   string
		unjudged []string
	}{
		{"sound", of(loadtest.Findings{Checked: 3}), "", nil},
		{"unsent", loadtest.Verdict{
			Figures: loadtest.Figures{Sent: 2, Acknowledged: 2, Unsent: 1}, Findings: loadtest.Findings{Checked: 2},
		}, claimServed, nil},
		{"lost", of(loadtest.Findings{Checked: 3, Lost: 1}), claimKept, nil},
		{"wrong", of(loadtest.Findings{Checked: 3, Wrong: 1}), claimRight, nil},
		{"twice", of(loadtest.Findings{Checked: 3, Twice: 1}), claimOnce, nil},
		{"unread", of(loadtest.Findings{Checked: 3, Unread: 1}), claimKept, []string{claimRight, claimOnce}},
		{"nothing read back", of(loadtest.Findings{}), "", links},
		{"cut short", of(loadtest.Findings{Checked: 2}), "", links},
		{"cut short, but lost", of(loadtest.Findings{Checked: 2, Lost: 1}), claimKept, []string{claimRight, claimOnce}},
		{"nothing acknowledged", loadtest.Verdict{Figures: loadtest.Figures{Sent: 3, Refused: 3}}, claimServed, links},
	}
	for _, tt := range tests {
		var p Part
		p.claimAccounts()
		p.judgeAccounts(tt.verdict)
		for _, c := range p.Claims {
			want := report.Held
			switch {
			case c.Name == tt.failed:
				want = report.Failed
			case slices.Contains(tt.unjudged, c.Name):
				want = report.NotJudged
			}
			if c.Verdict != want {
				t.Errorf("%s: claim %q is %s, want %s", tt.name, c.Name, c.Verdict, want)
			}
		}
	}
}
