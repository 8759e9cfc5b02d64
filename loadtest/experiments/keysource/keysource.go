// Package keysource tests every key source by the same rules, with real processes.
//
// Two servers use the key source on one PostgreSQL. The first server has the default fallback, and
// the second server has none. The rules are tested one after the other, and the links of a rule stay in
// the database for the later rules. Each rule is a claim of the experiment.
//
// Invariant: a rule uses only the commands, settings, HTTP interface, /status and /metrics of the
// programs. It does not depend on how a key source works.
//
// Vocabulary: a component is a program from which a key source draws keys, besides the database of the
// links: Redis, a ticket database or the key service. All components together are the supply. If
// the name of a setting of a control is in lower case, the setting is for the experiment. Otherwise it is for
// the programs. rule=NAME selects the only rule to test. damage=WHAT breaks something that no setting of a
// program can break.
package keysource

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/report"
)

// Experiments returns one experiment for each key source, and one for nanoid, the example of a
// new key source in CONTRIBUTING.md.
func Experiments() []*experiment.Experiment {
	var all []*experiment.Experiment
	for _, s := range sources.All() {
		all = append(all, experiment.Define(definition(s, func(*experiment.T) {})))
	}
	own := sources.Source{
		Name: "nanoid", Title: "the example in CONTRIBUTING.md", Settings: []string{"KEY_SOURCE=nanoid"}, Label: "nanoid", Code: `[0-9A-Za-z_-]{21}`,
	}
	return append(all, experiment.Define(definition(own, buildShown)))
}

// record holds the results of the rules that were tested. A rule that does not hold ends the run
// with [experiment.T.Refute].
type record struct {
	held     map[string]bool   // the rules that held
	unserved map[string]string // for each rule, which creations failed although they had to be served
	watched  int               // number of loads in which every creation had to be served
	slowest  time.Duration     // duration of the slowest refusal
}

// unservedText says which creations failed although they had to be served.
func (r *record) unservedText() string {
	if len(r.unserved) == 0 {
		return fmt.Sprintf("in %d loads in which every creation had to be served, no creation failed", r.watched)
	}
	var rules []string
	for _, name := range slices.Sorted(maps.Keys(r.unserved)) {
		rules = append(rules, fmt.Sprintf("%q (%s)", name, r.unserved[name]))
	}
	return "creations failed in the tests of these rules: " + strings.Join(rules, ", ")
}

// rule is a requirement that every key source must meet.
type rule struct {
	name, text string
	try        func(*stand)
}

// rulesOf returns the rules for a key source, in the order in which they are tested.
func rulesOf(s *sources.Source) []rule {
	all := []rule{
		{"32 clients get different codes", "When 32 clients create links at the same time, no client gets a code of another client. Every code has the documented form.", unique},
		{"two servers give out different codes", "When two servers create links at the same time, they give out no code twice.", shared},
		// This rule comes before all rules that kill a server, because a killed server keeps keys in its batches.
		{"a stopped server keeps no keys", "A server that receives SIGTERM under load exits with status 0 within 10 s and keeps no keys.", stopped},
		{"a killed server loses no link", "A server that is killed repeatedly under load gives out no code twice and loses no link.", killed},
	}
	for _, f := range faults() {
		if s.Tickets {
			all = append(all, rule{"serves while one ticket database is " + f.name, "After one of the two ticket databases was " + f.name + ", the other ticket database serves the key source.",
				func(st *stand) { survives(st, f) }})
		}
		if s.Redis || s.Tickets || s.Service {
			all = append(all, rule{"recovers after its supply is " + f.name, fmt.Sprintf("After the supply of the keys (Redis, both ticket databases or the key service) was %s, a server without a fallback "+
				"refuses creations as soon as its keys are used up. A refusal has status 503, Retry-After and a problem document. When the supply is available again, the key source serves again by itself "+
				"within %.0f s.", f.name, recovered.Seconds()),
				func(st *stand) { goesWithout(st, f) }})
		}
	}
	return append(all,
		rule{"refuses while the database is killed", "While the database of the links is down, every creation is refused. No acknowledged link is lost.", refusesAll},
		rule{"load test passes", "The experiment load/create passes with the key source.", harness},
		rule{"accounts close", "At the end of the run, every acknowledged link exists, and the accounts close.", accounts},
	)
}

// The names of the claims that are about several rules.
const (
	quick  = "refusals are quick"
	served = "creations are served"
)

func definition(s sources.Source, prepare func(*experiment.T)) experiment.Definition[record] {
	rules := rulesOf(&s)
	var claims []experiment.Claim[record]
	for _, r := range rules {
		claims = append(claims, experiment.Claim[record]{Name: r.name, Text: r.text, Kind: report.Correctness, Judge: func(rec *record) experiment.Verdict {
			if !rec.held[r.name] {
				return experiment.Verdict{}
			}
			return experiment.Holds(true, "the run tested this rule and found no contradiction")
		}})
	}
	claims = append(claims, experiment.Claim[record]{
		Name: served, Kind: report.Availability,
		Text: "While the database of the links runs, no creation fails on an undisturbed server, on a server with a fallback, or on a server that still reaches one of its two ticket databases.",
		Judge: func(rec *record) experiment.Verdict {
			if rec.watched == 0 {
				return experiment.Verdict{}
			}
			return experiment.Holds(len(rec.unserved) == 0, "%s", rec.unservedText())
		},
	}, experiment.Claim[record]{
		Name: quick, Text: fmt.Sprintf("A creation that cannot be served is refused within %.0f s.", refusal.Seconds()), Unit: "s", Kind: report.Speed,
		Judge: func(rec *record) experiment.Verdict {
			if rec.slowest == 0 {
				return experiment.Verdict{}
			}
			return experiment.AtMost(refusal.Seconds(), rec.slowest.Seconds(), "the slowest refusal took %v", rec.slowest.Round(time.Millisecond))
		},
	})
	return experiment.Definition[record]{
		Name: "keysource/" + s.Name, Title: "Key source: " + s.Title,
		Summary: "Many clients create links on two servers that use the key source. Meanwhile servers are stopped and killed, the database of the links is killed, and the components that the key source needs, if any, are killed and frozen.",
		Suites:  []experiment.Suite{experiment.Nightly}, Claims: claims, Controls: controlsOf(s.Name),
		Run: func(t *experiment.T, rec *record) { prepare(t); tryRules(t, s, rules, rec) },
		Show: func(_ *record, e *report.Experiment) {
			e.Settings = map[string]string{"KEY_SOURCE": strings.Join(s.Settings, " "), "FALLBACK": "random on the first server, none on the second"}
		},
	}
}

// tryRules tests the rules until a rule does not hold. It does not test the rules after the failed one, because
// the failure may have changed the state that they depend on.
func tryRules(t *experiment.T, s sources.Source, rules []rule, rec *record) {
	rec.held, rec.unserved = make(map[string]bool), make(map[string]string)
	st := newStand(t, s, rec)
	only := st.option("rule")
	for i, r := range rules {
		if only != "" && r.name != only {
			continue
		}
		t.Phase(float64(i)/float64(len(rules)), "%s", r.name)
		st.rule = r.name
		r.try(st)
		t.Must(t.Context().Err())
		rec.held[r.name] = true
	}
}

// controlsOf returns the controls of a key source. The controls of all key sources together select each
// rule at least once.
func controlsOf(name string) []experiment.Control {
	const killing, freezing = "recovers after its supply is killed", "recovers after its supply is frozen"
	const different, stops, keeps = "32 clients get different codes", "a stopped server keeps no keys", "a killed server loses no link"
	broken := func(rule, refutes string, without []string, settings ...string) experiment.Control {
		return experiment.Control{Without: without, Settings: append([]string{"rule=" + rule}, settings...), Refutes: refutes}
	}
	twice, handback, store, patience := []string{"once", "conflict"}, []string{"handback"}, []string{"store"}, []string{"patience"}
	switch name {
	case "ledger":
		return []experiment.Control{
			broken(different, different, twice), broken(stops, stops, handback), broken("load test passes", "load test passes", twice),
			broken("accounts close", "accounts close", nil, "damage=ledger"),
		}
	case "random":
		return []experiment.Control{
			broken(different, different, nil, "CODE_LENGTH=7"), broken(different, different, store),
			broken(keeps, keeps, []string{"commit"}), broken("refuses while the database is killed", "refuses while the database is killed", store),
		}
	case "redis-pool":
		return []experiment.Control{
			broken("two servers give out different codes", "two servers give out different codes", twice), broken(killing, served, nil, "FALLBACK=none"),
			broken(killing, killing, nil, "KGS_WORKER=false", "damage=worker"),
			broken(killing, quick, patience), broken(freezing, quick, patience),
		}
	case "postgres-pool-delete":
		return []experiment.Control{broken(stops, stops, handback)}
	case "ticket":
		const one = "TICKET_DATABASE_URLS=${COMPONENT},${COMPONENT}" // one database makes both the odd and the even numbers
		return []experiment.Control{
			broken("serves while one ticket database is killed", "serves while one ticket database is killed", nil, one),
			broken("serves while one ticket database is frozen", "serves while one ticket database is frozen", nil, one),
		}
	}
	return nil
}
