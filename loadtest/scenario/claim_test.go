package scenario

import (
	"testing"

	"keypool/loadtest"
	"keypool/loadtest/report"
)

// Each way to judge holds where it ought to, and fails right beside.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		judge func(*part)
		want  report.Verdict
	}{
		{"within", func(p *part) { p.within("c", 100, 101.9, 0.02) }, report.Held},
		{"beyond", func(p *part) { p.within("c", 100, 102.1, 0.02) }, report.Failed},
		{"short of", func(p *part) { p.within("c", 100, 97.9, 0.02) }, report.Failed},
		{"at most", func(p *part) { p.atMost("c", 10, 10) }, report.Held},
		{"more", func(p *part) { p.atMost("c", 10, 10.1) }, report.Failed},
		{"at least", func(p *part) { p.atLeast("c", 10, 10) }, report.Held},
		{"less", func(p *part) { p.atLeast("c", 10, 9.9) }, report.Failed},
		{"none", func(p *part) { p.none("c", 0, "none") }, report.Held},
		{"one", func(p *part) { p.none("c", 1, "one") }, report.Failed},
		{"never judged", func(*part) {}, report.NotJudged},
		{"cannot be judged", func(p *part) { p.cannotJudge("c", "why") }, report.NotJudged},
		{"none is judged", func(p *part) { p.judgeNone("why") }, report.NotJudged},
		{"none but those that were", func(p *part) { p.atMost("c", 1, 2); p.judgeNone("why") }, report.Failed},
	}
	for _, tt := range tests {
		var p part
		p.claim("c", "A claim.", "s")
		tt.judge(&p)
		if got := p.Claims[0]; got.Verdict != tt.want || got.Why == "" {
			t.Errorf("%s: %s because %q, want %s", tt.name, got.Verdict, got.Why, tt.want)
		}
	}
}

// Each way in which accounts may not close fails the claim that it is about, and no other.
func TestAccountsFail(t *testing.T) {
	t.Parallel()
	sent := loadtest.Figures{Sent: 3, Acknowledged: 3}
	tests := map[string]loadtest.Verdict{
		"":          {Figures: sent},
		claimServed: {Figures: loadtest.Figures{Sent: 3, Acknowledged: 2, Unsent: 1}},
		claimKept:   {Figures: sent, Findings: loadtest.Findings{Lost: 1}},
		claimRight:  {Figures: sent, Findings: loadtest.Findings{Wrong: 1}},
		claimOnce:   {Figures: sent, Findings: loadtest.Findings{Twice: 1}},
	}
	for broken, verdict := range tests {
		var p part
		p.claimAccounts()
		p.judgeAccounts(verdict)
		for _, c := range p.Claims {
			want := report.Held
			if c.Name == broken {
				want = report.Failed
			}
			if c.Verdict != want {
				t.Errorf("%q broken: claim %q is %s, want %s", broken, c.Name, c.Verdict, want)
			}
		}
	}
}
