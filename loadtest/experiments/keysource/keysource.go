// Package keysource tries every key source by the same rules, over real processes.
//
// Two servers use the source on one PostgreSQL, the first with the default fallback and the
// second with none. The rules are tried one after the other, each on everything that the ones
// before have made. Each rule is a claim.
//
// Invariant: a rule knows the programs by their commands, settings, HTTP interface, /status and
// /metrics, and nothing of how a source works.
//
// Vocabulary: a draw is something that a source draws on besides the database of the links. A
// setting of a control with a lower-case name is for the experiment and not for the programs:
// rule=NAME tries that rule only, damage=WHAT breaks something that no setting of a program can.
package keysource

import (
	"fmt"
	"strings"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/report"
)

// Experiments returns an experiment for each key source, and one for the source that
// CONTRIBUTING.md shows how to add.
func Experiments() []*experiment.Experiment {
	var all []*experiment.Experiment
	for _, s := range sources.All() {
		all = append(all, experiment.Define(definition(s, func(*experiment.T) {})))
	}
	own := sources.Source{
		Name: "nanoid", Title: "the source that CONTRIBUTING.md adds", Settings: []string{"KEY_SOURCE=nanoid"}, Label: "nanoid", Code: `[0-9A-Za-z_-]{21}`,
	}
	return append(all, experiment.Define(definition(own, buildShown)))
}

// record is what became of the rules that were tried. A rule that does not hold ends the run
// by [experiment.T.Refute].
type record struct {
	held     map[string]bool   // by rule
	unserved map[string]string // the creations that failed and had to be served, by rule
	slowest  time.Duration     // of all refusals
}

// rule is what every source keeps.
type rule struct {
	name, text string
	try        func(*stand)
}

// rulesOf returns the rules for a source in the order in which they are tried.
func rulesOf(s *sources.Source) []rule {
	all := []rule{
		{"32 at once", "Of 32 clients that create links at once none gets a code of another, and every code has the documented form.", unique},
		{"two processes", "Two servers that create links at once give out no code twice.", shared},
		// Before any process is killed: a killed server keeps keys in its batches.
		{"stopped", "A server that gets SIGTERM under load exits with status 0 within 10 s and keeps no key.", stopped},
		{"killed", "A server that is killed under load again and again gives out no code twice and loses no link.", killed},
	}
	for _, f := range faults() {
		if s.Tickets {
			all = append(all, rule{"one of two " + f.name, "While either of the two draws is " + f.name + " the other one serves the source.",
				func(st *stand) { survives(st, f) }})
		}
		if s.Redis || s.Tickets || s.Service {
			all = append(all, rule{"all draws " + f.name, fmt.Sprintf("While all draws are %s a server without fallback refuses "+
				"with 503, Retry-After and a problem; the source serves again within %v by itself.", f.name, recovered),
				func(st *stand) { goesWithout(st, f) }})
		}
	}
	return append(all,
		rule{"database killed", "Without the database of the links every creation is refused, and no acknowledged link is lost.", refusesAll},
		rule{"load harness", "The experiment load/create passes against the source.", harness},
		rule{"accounts", "In the end every link that was ever acknowledged is there, and the accounts close.", accounts},
	)
}

// The claims that are about several rules.
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
			return experiment.Holds(true, "")
		}})
	}
	claims = append(claims, experiment.Claim[record]{
		Name: served, Kind: report.Availability,
		Text: "No creation fails on a server that is left alone, that has a fallback, or that has one of its two draws.",
		Judge: func(rec *record) experiment.Verdict {
			if len(rec.held) == 0 {
				return experiment.Verdict{}
			}
			return experiment.Holds(len(rec.unserved) == 0, "creations that failed, by rule: %v", rec.unserved)
		},
	}, experiment.Claim[record]{
		Name: quick, Text: fmt.Sprintf("A creation without a key is refused within %v.", refusal), Unit: "s", Kind: report.Speed,
		Judge: func(rec *record) experiment.Verdict {
			if rec.slowest == 0 {
				return experiment.Verdict{}
			}
			return experiment.AtMost(refusal.Seconds(), rec.slowest.Seconds(), "the slowest refusal took %v", rec.slowest.Round(time.Millisecond))
		},
	})
	return experiment.Definition[record]{
		Name: "keysource/" + s.Name, Title: s.Title,
		Summary: "Two servers use the key source while many clients create links, and servers and what the source draws on are stopped, killed and frozen.",
		Suites:  []experiment.Suite{experiment.Nightly}, Claims: claims, Controls: controlsOf(s.Name),
		Run: func(t *experiment.T, rec *record) { prepare(t); tryRules(t, s, rules, rec) },
		Show: func(_ *record, e *report.Experiment) {
			e.Settings = map[string]string{"KEY_SOURCE": strings.Join(s.Settings, " "), "FALLBACK": "random on the first server, none on the second"}
		},
	}
}

// tryRules tries the rules until one does not hold. What comes after it would be about what it
// has left behind.
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

// controlsOf are the sources that are broken on purpose. Each rule has at least one.
func controlsOf(name string) []experiment.Control {
	const killing, freezing = "all draws killed", "all draws frozen"
	broken := func(rule, refutes string, without []string, settings ...string) experiment.Control {
		return experiment.Control{Without: without, Settings: append([]string{"rule=" + rule}, settings...), Refutes: refutes}
	}
	twice, handback, store, patience := []string{"once", "conflict"}, []string{"handback"}, []string{"store"}, []string{"patience"}
	switch name {
	case "ledger":
		return []experiment.Control{
			broken("32 at once", "32 at once", twice), broken("stopped", "stopped", handback), broken("load harness", "load harness", twice),
			broken("accounts", "accounts", nil, "damage=ledger"),
		}
	case "random":
		return []experiment.Control{
			broken("32 at once", "32 at once", nil, "CODE_LENGTH=7"), broken("32 at once", "32 at once", store),
			broken("killed", "killed", []string{"commit"}), broken("database killed", "database killed", store),
		}
	case "redis-pool":
		return []experiment.Control{
			broken("two processes", "two processes", twice), broken(killing, served, nil, "FALLBACK=none"),
			broken(killing, killing, nil, "KGS_WORKER=false", "damage=worker"),
			broken(killing, quick, patience), broken(freezing, quick, patience),
		}
	case "postgres-pool-delete":
		return []experiment.Control{broken("stopped", "stopped", handback)}
	case "ticket":
		const one = "TICKET_DATABASE_URLS=${DRAW},${DRAW}" // the same database for odd and even numbers
		return []experiment.Control{
			broken("one of two killed", "one of two killed", nil, one), broken("one of two frozen", "one of two frozen", nil, one),
		}
	}
	return nil
}
