package keysource

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryKeySourceRuleHasControl(t *testing.T) {
	controlled := make(map[string]bool)
	for _, s := range sources.All() {
		rules := rulesOf(&s)
		for _, c := range controlsOf(s.Name) {
			controlled[c.Refutes] = true
			tries := func(r rule) bool { return c.Settings[0] == "rule="+r.name }
			if !slices.ContainsFunc(rules, tries) {
				t.Errorf("%s: the control %s selects no rule", s.Name, c.Name())
			}
		}
	}
	for _, s := range sources.All() {
		for _, r := range rulesOf(&s) {
			// The control of the rule "recovers after its supply is frozen" refutes the claim "refusals are quick".
			if !controlled[r.name] && r.name != "recovers after its supply is frozen" {
				t.Errorf("%s: the rule %q has no control", s.Name, r.name)
			}
		}
	}
	for _, name := range []string{quick, served} {
		if !controlled[name] {
			t.Errorf("the claim %q has no control", name)
		}
	}
}

func TestRulesDependOnComponentsOfKeySource(t *testing.T) {
	for _, tt := range []struct {
		source sources.Source
		more   []string
	}{
		{sources.Source{}, nil},
		{sources.Source{Redis: true}, []string{"recovers after its supply is killed", "recovers after its supply is frozen"}},
		{sources.Source{Tickets: true}, []string{
			"serves while one ticket database is killed", "recovers after its supply is killed",
			"serves while one ticket database is frozen", "recovers after its supply is frozen",
		}},
	} {
		var got []string
		for _, r := range rulesOf(&tt.source) {
			got = append(got, r.name)
		}
		want := slices.Concat([]string{
			"32 clients get different codes", "two servers give out different codes", "a stopped server keeps no keys", "a killed server loses no link",
		}, tt.more, []string{"refuses while the database is killed", "load test passes", "accounts close"})
		if !slices.Equal(got, want) {
			t.Errorf("%+v: rules %q, want %q", tt.source, got, want)
		}
	}
}

func TestClaimFailsIfLoadIsNotServedOrRefusalIsSlow(t *testing.T) {
	claims := definition(sources.Source{Name: "any"}, func(*experiment.T) {}).Claims
	for _, tt := range []struct {
		name  string
		rec   *record
		claim string
		want  report.Outcome
	}{
		{"a rule that was not tried", &record{}, "accounts close", ""},
		{"a rule that holds", &record{held: map[string]bool{"accounts close": true}}, "accounts close", report.Held},
		{"no load that had to be served", &record{held: map[string]bool{"accounts close": true}}, served, ""},
		{"a load that was served", &record{watched: 1}, served, report.Held},
		{"a load that failed", &record{watched: 1, unserved: map[string]string{"a killed server loses no link": "3 refused"}}, served, report.Failed},
		{"no refusal", &record{}, quick, ""},
		{"a quick refusal", &record{slowest: time.Second}, quick, report.Held},
		{"a slow refusal", &record{slowest: 2 * time.Second}, quick, report.Failed},
	} {
		i := slices.IndexFunc(claims, func(c experiment.Claim[record]) bool { return c.Name == tt.claim })
		if got := claims[i].Judge(tt.rec).Outcome; got != tt.want {
			t.Errorf("%s: outcome %q, want %q", tt.name, got, tt.want)
		}
	}
}
