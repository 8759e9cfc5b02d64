package experiment

import (
	"fmt"
	"math"

	"keypool/loadtest/report"
)

// Verdict is the result of judging a record by a claim. The zero Verdict means "not judged".
type Verdict struct {
	Outcome         report.Outcome
	Why             string
	bound, observed *float64
	certain         bool
}

// Holds returns a verdict that holds if ok is true. why and args give the reason.
func Holds(ok bool, why string, args ...any) Verdict {
	v := Verdict{Outcome: report.Failed, Why: fmt.Sprintf(why, args...)}
	if ok {
		v.Outcome = report.Held
	}
	return v
}

// NotJudged returns the verdict "not judged" with the reason.
func NotJudged(why string, args ...any) Verdict {
	return Verdict{Outcome: report.NotJudged, Why: fmt.Sprintf(why, args...)}
}

// AtMost returns a verdict that holds if observed is at most bound.
func AtMost(bound, observed float64, why string, args ...any) Verdict {
	return Holds(observed <= bound, why, args...).Figures(bound, observed)
}

// AtLeast returns a verdict that holds if observed is at least bound.
func AtLeast(bound, observed float64, why string, args ...any) Verdict {
	return Holds(observed >= bound, why, args...).Figures(bound, observed)
}

// None returns a verdict that holds if n is 0.
func None(n int64, why string, args ...any) Verdict {
	return Holds(n == 0, why, args...).Figures(0, float64(n))
}

// Within returns a verdict that holds if observed differs from predicted by at most tolerance, which is
// a share of predicted.
func Within(predicted, observed, tolerance float64) Verdict {
	off := math.Abs(observed-predicted) / math.Abs(predicted)
	return Holds(off <= tolerance, "the observed value is %s, and the predicted value is %s; the difference is %s %%, and at most %s %% is allowed",
		report.Number(observed), report.Number(predicted), report.Number(100*off), report.Number(100*tolerance)).Figures(predicted, observed)
}

// Figures returns v with the bound or the prediction, and with the observed figure.
func (v Verdict) Figures(bound, observed float64) Verdict {
	v.bound, v.observed = &bound, &observed
	return v
}

// Certain returns v, marked as certain. If a certain verdict is a failure, the claim stays failed on a busy
// machine instead of becoming inconclusive. Certain is for claims that depend on time, if a busy machine
// cannot be the cause of the failure.
func (v Verdict) Certain() Verdict {
	v.certain = true
	return v
}

// enter copies v into the report of a claim.
func (v Verdict) enter(c *report.Claim) {
	if v.Outcome != "" {
		c.Outcome, c.Why = v.Outcome, v.Why
	}
	c.Predicted, c.Observed = v.bound, v.observed
}
