package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Verdict is the result of an experiment or of a run.
type Verdict string

// The verdicts.
const (
	Pass    Verdict = "PASS"
	Fail    Verdict = "FAIL"         // a claim fails, or a control is not caught
	Errored Verdict = "ERROR"        // an experiment did not run to its end, the run was interrupted, or nothing was judged
	Unsure  Verdict = "INCONCLUSIVE" // no claim fails; at least one is inconclusive
)

// fails reports whether the claim makes its experiment fail. A bar never makes the experiment fail. A failed
// speed claim makes the experiment fail only if strict is true. Only claims that depend on time may be
// inconclusive, so an inconclusive correctness claim makes the experiment fail.
func (c Claim) fails(strict bool) bool {
	switch {
	case c.Outcome == Held, c.Outcome == NotJudged, c.Kind == Bar:
		return false
	case c.Outcome == Inconclusive:
		return !c.Timed()
	case c.Kind == Speed:
		return strict
	}
	return true
}

// Timed reports whether the claim depends on time. Other programs on the machine can make such a claim fail.
func (c Claim) Timed() bool { return c.Kind == Speed || c.Kind == Availability }

// Word returns the outcome as reports print it.
func (c Claim) Word() string {
	switch {
	case c.Outcome == Inconclusive, c.Outcome == NotJudged:
		return strings.ToUpper(string(c.Outcome))
	case c.Outcome == Held && c.Kind == Bar:
		return "HOLDS"
	case c.Outcome == Held:
		return string(Pass)
	case c.Kind == Bar:
		return "MISSES"
	}
	return string(Fail)
}

// Verdict returns the first of these verdicts that applies:
//
//   - FAIL: a claim makes the experiment fail, or a control is not caught;
//   - ERROR: the experiment did not run to its end, or no claim was judged;
//   - INCONCLUSIVE: a claim is inconclusive;
//   - PASS: in all other cases.
//
// If strict is false, a speed claim that fails does not count.
func (e *Experiment) Verdict(strict bool) Verdict {
	fails := func(c Claim) bool { return c.fails(strict) }
	missed := func(c Control) bool { return !c.Caught }
	unsure := func(c Claim) bool { return c.Outcome == Inconclusive }
	switch {
	case slices.ContainsFunc(e.Claims, fails), slices.ContainsFunc(e.Controls, missed):
		return Fail
	case e.Error != "", !e.isJudged():
		return Errored
	case slices.ContainsFunc(e.Claims, unsure):
		return Unsure
	}
	return Pass
}

// isJudged reports whether a claim was judged. An experiment without claims counts as judged if it has a control.
func (e *Experiment) isJudged() bool {
	judged := func(c Claim) bool { return c.Outcome != NotJudged }
	return slices.ContainsFunc(e.Claims, judged) || len(e.Claims) == 0 && len(e.Controls) > 0
}

// Verdict returns FAIL if an experiment fails. Otherwise it returns ERROR if the run was
// interrupted, if no experiment ran, or if an experiment has the verdict ERROR. In all other
// cases it returns PASS. An inconclusive experiment does not make the run fail.
func (r *Report) Verdict() Verdict {
	verdict := Pass
	if r.Interrupted || len(r.Experiments) == 0 {
		verdict = Errored
	}
	for i := range r.Experiments {
		switch r.Experiments[i].Verdict(r.Strict) {
		case Fail:
			return Fail
		case Errored:
			verdict = Errored
		}
	}
	return verdict
}

// Passed reports whether the verdict on the run is PASS.
func (r *Report) Passed() bool { return r.Verdict() == Pass }

// Sentence says how many claims and bars of the experiment hold, and how many controls were
// caught: "5 of 7 claims hold, 1 failed, 1 not judged; 2 of 2 controls were caught".
func (e *Experiment) Sentence() string { return sentence(*e) }

// Sentence says how many claims and bars of the run hold, and how many controls were caught.
func (r *Report) Sentence() string { return sentence(r.Experiments...) }

func sentence(all ...Experiment) string {
	var claims, bars []Outcome
	controls, caught := 0, 0
	for i := range all {
		e := &all[i]
		for _, c := range e.Claims {
			if c.Kind == Bar {
				bars = append(bars, c.Outcome)
			} else {
				claims = append(claims, c.Outcome)
			}
		}
		for _, c := range e.Controls {
			if controls++; c.Caught {
				caught++
			}
		}
	}
	var parts []string
	if len(claims) > 0 {
		parts = append(parts, tally(claims, "claim", "failed"))
	}
	if len(bars) > 0 {
		parts = append(parts, tally(bars, "bar", "missed"))
	}
	if controls > 0 {
		were := "were"
		if controls == 1 {
			were = "was"
		}
		parts = append(parts, fmt.Sprintf("%d of %s %s caught", caught, count(controls, "control"), were))
	}
	return cmp.Or(strings.Join(parts, "; "), "0 claims were judged")
}

// tally counts the outcomes of claims or bars in words. An unknown outcome counts as failed.
func tally(all []Outcome, noun, failed string) string {
	n := make(map[Outcome]int)
	for _, o := range all {
		if o != Held && o != Inconclusive && o != NotJudged {
			o = Failed
		}
		n[o]++
	}
	s := fmt.Sprintf("%d of %s hold", n[Held], count(len(all), noun))
	if len(all) == 1 {
		s += "s"
	}
	for _, part := range []struct {
		outcome Outcome
		word    string
	}{{Failed, failed}, {Inconclusive, "inconclusive"}, {NotJudged, "not judged"}} {
		if n[part.outcome] > 0 {
			s += fmt.Sprintf(", %d %s", n[part.outcome], part.word)
		}
	}
	return s
}

// Finding is a claim that does not hold or was not judged, a control that was not caught, or an
// error of an experiment.
type Finding struct {
	Word       string // FAIL, ERROR, INCONCLUSIVE, MISSES or NOT JUDGED
	Experiment string
	Name, Text string // of the claim; for a control or an error, Text says what is wrong
	Why        string
	Claim      *Claim // nil if the finding is not about a claim
}

// Findings returns the findings of all experiments, the most serious first. If an experiment ended
// with an error, the error is a finding. In this case, the claims of the experiment that were not
// judged are not findings.
func (r *Report) Findings() []Finding {
	var all []Finding
	for i := range r.Experiments {
		all = append(all, r.Experiments[i].findings()...)
	}
	order := []string{string(Fail), string(Errored), string(Unsure), "MISSES", "NOT JUDGED"}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return slices.Index(order, a.Word) - slices.Index(order, b.Word)
	})
	return all
}

func (e *Experiment) findings() []Finding {
	var all []Finding
	if e.Error != "" {
		all = append(all, Finding{Word: string(Errored), Text: "The experiment did not run to its end.", Why: e.Error})
	}
	for i, c := range e.Claims {
		if c.Outcome != Held && (c.Outcome != NotJudged || e.Error == "") {
			all = append(all, Finding{Word: c.Word(), Name: c.Name, Text: c.Text, Why: c.Why, Claim: &e.Claims[i]})
		}
	}
	for _, c := range e.Controls {
		if !c.Caught {
			quoted := `"` + strings.ReplaceAll(c.Refutes, ", ", `", "`) + `"`
			text := "The control was not caught. In its run, these claims must fail: " + quoted + "."
			all = append(all, Finding{Word: string(Fail), Name: c.Name, Text: text, Why: c.Why})
		}
	}
	for i := range all {
		all[i].Experiment = e.Name
	}
	return all
}
