package scenario

import (
	"fmt"
	"math"
	"slices"

	"keypool/loadtest"
	"keypool/loadtest/report"
)

// notReached is why a claim is not judged as long as nothing else is known.
const notReached = "the run did not come to it"

// Part is a scenario's part of the report while it is being made. A claim is entered
// before the run, is not judged as long as nothing judges it, and so has the same name in
// every report, also in that of a run that was cut short.
type Part struct {
	report.Scenario
}

// Claim enters one: its name, the sentence, and the unit of what is predicted and observed.
func (p *Part) Claim(name, text, unit string) {
	p.Claims = append(p.Claims, report.Claim{
		Name: name, Text: text, Unit: unit, Verdict: report.NotJudged, Why: notReached,
	})
}

// find is the claim of that name; to judge one that was not entered is a mistake of ours.
func (p *Part) find(name string) *report.Claim {
	i := slices.IndexFunc(p.Claims, func(c report.Claim) bool { return c.Name == name })
	if i < 0 {
		panic("claim " + name + " was not entered")
	}
	return &p.Claims[i]
}

// Judge says whether a claim holds, and why.
func (p *Part) Judge(name string, holds bool, why string, args ...any) {
	c := p.find(name)
	c.Verdict, c.Why = report.Failed, fmt.Sprintf(why, args...)
	if holds {
		c.Verdict = report.Held
	}
}

// CannotJudge says why a claim is not judged.
func (p *Part) CannotJudge(name, why string, args ...any) {
	c := p.find(name)
	c.Verdict, c.Why = report.NotJudged, fmt.Sprintf(why, args...)
}

// judgeNone says why none of the claims is judged that have not been so far.
func (p *Part) judgeNone(why string, args ...any) {
	for i := range p.Claims {
		if c := &p.Claims[i]; c.Verdict == report.NotJudged && c.Why == notReached {
			c.Why = fmt.Sprintf(why, args...)
		}
	}
}

// Within holds when observed differs from predicted by no more than tolerance, a share of
// what was predicted.
func (p *Part) Within(name string, predicted, observed, tolerance float64) {
	off := math.Abs(observed-predicted) / math.Abs(predicted)
	unit := p.Figures(name, predicted, observed)
	p.Judge(name, off <= tolerance, "%.4g%s observed, %.4g%s predicted: %.2g %% apart, %.2g %% allowed",
		observed, unit, predicted, unit, 100*off, 100*tolerance)
}

// AtMost holds when observed is not above bound.
func (p *Part) AtMost(name string, bound, observed float64) {
	unit := p.Figures(name, bound, observed)
	p.Judge(name, observed <= bound, "%.4g%s observed, at most %.4g%s allowed", observed, unit, bound, unit)
}

// AtLeast holds when observed is not below bound.
func (p *Part) AtLeast(name string, bound, observed float64) {
	unit := p.Figures(name, bound, observed)
	p.Judge(name, observed >= bound, "%.4g%s observed, at least %.4g%s wanted", observed, unit, bound, unit)
}

// Figures enters both and returns the unit as it follows a figure.
func (p *Part) Figures(name string, predicted, observed float64) string {
	c := p.find(name)
	c.Predicted, c.Observed = &predicted, &observed
	if c.Unit == "" {
		return ""
	}
	return " " + c.Unit
}

// Names of the claims that every scenario with creations makes.
const (
	claimServed = "no failed creation"
	claimKept   = "no lost link"
	claimRight  = "no wrong link"
	claimOnce   = "no code twice"
)

// claimAccounts enters what every creation ought to get, a link, and what every link ought
// to be.
func (p *Part) claimAccounts() {
	p.Claim(claimServed, "No creation failed.", "creations")
	p.ClaimLinks()
}

// claimSteadyAccounts enters the same of a load that goes on to rates at which a creation
// may fail; its link may not.
func (p *Part) claimSteadyAccounts() {
	p.Claim(claimServed, "No creation failed at the steady rate.", "creations")
	p.ClaimLinks()
}

// ClaimLinks enters what every link ought to be.
func (p *Part) ClaimLinks() {
	p.Claim(claimKept, "No acknowledged link was lost.", "links")
	p.Claim(claimRight, "Every acknowledged link leads where it was promised to lead.", "links")
	p.Claim(claimOnce, "No code was given twice.", "links")
}

// judgeAccounts judges these claims by what was sent and what was read back.
func (p *Part) judgeAccounts(v loadtest.Verdict) {
	p.judgeServed(v.Figures)
	p.JudgeLinks(v)
}

func (p *Part) judgeServed(f loadtest.Figures) {
	if f.Sent+f.Unsent == 0 {
		return
	}
	p.None(claimServed, f.Failed(), "of %d creations, %d were refused, %d unanswered and %d unsent",
		f.Sent+f.Unsent, f.Refused, f.Unknown, f.Unsent)
}

// JudgeLinks judges it by what was sent and what was read back; of nothing, not at all.
func (p *Part) JudgeLinks(v loadtest.Verdict) {
	if v.Sent+v.Unsent == 0 {
		return
	}
	p.None(claimKept, v.Lost+v.Unread, "of %d links that were asked for, %d led nowhere and %d could not be read",
		v.Checked, v.Lost, v.Unread)
	p.None(claimRight, v.Wrong, "of %d links that were read back, %d led elsewhere", v.Checked-v.Unread, v.Wrong)
	p.None(claimOnce, v.Twice, "of %d acknowledged codes, %d had been given before", v.Acknowledged, v.Twice)
	if read := v.Checked - v.Unread; v.Acknowledged == 0 || read < v.Acknowledged {
		p.unproven("%d of %d acknowledged links were read back", read, v.Acknowledged)
	}
	p.Notes = append(p.Notes, v.Reports...)
}

// unproven takes back that no link is lost, wrong, or twice: one that was not read back may
// be any of these. What was found stands.
func (p *Part) unproven(why string, args ...any) {
	for _, name := range []string{claimKept, claimRight, claimOnce} {
		if p.find(name).Verdict == report.Held {
			p.CannotJudge(name, why, args...)
		}
	}
}

// maxFailures is how many failures are told in words, of each kind.
const maxFailures = 3

// tellFailures notes why creations failed: the first few of each kind.
func (p *Part) tellFailures(entries []loadtest.Entry) {
	told := make(map[loadtest.State]int)
	for _, e := range entries {
		if e.State == loadtest.Acknowledged {
			continue
		}
		if told[e.State]++; told[e.State] <= maxFailures {
			p.Notes = append(p.Notes, fmt.Sprintf("Creation %d, of %s, is %s: %s", e.N, e.At.Format("15:04:05.000"), e.State, e.Detail))
		}
	}
}

// None holds when n is 0.
func (p *Part) None(name string, n int64, why string, args ...any) {
	p.Figures(name, 0, float64(n))
	p.Judge(name, n == 0, why, args...)
}
