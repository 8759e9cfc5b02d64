package experiment

import (
	"fmt"
	"math"

	"keypool/loadtest/report"
)

// Verdict is what a record says about a claim. The zero Verdict is "not judged".
type Verdict struct {
	Outcome         report.Outcome
	Why             string
	bound, observed *float64
}

// Holds is the verdict ok, with its reason.
func Holds(ok bool, why string, args ...any) Verdict {
	v := Verdict{Outcome: report.Failed, Why: fmt.Sprintf(why, args...)}
	if ok {
		v.Outcome = report.Held
	}
	return v
}

// NotJudged says why a record does not decide a claim.
func NotJudged(why string, args ...any) Verdict {
	return Verdict{Outcome: report.NotJudged, Why: fmt.Sprintf(why, args...)}
}

// AtMost holds when observed is not above bound.
func AtMost(bound, observed float64, why string, args ...any) Verdict {
	return Holds(observed <= bound, why, args...).Figures(bound, observed)
}

// AtLeast holds when observed is not below bound.
func AtLeast(bound, observed float64, why string, args ...any) Verdict {
	return Holds(observed >= bound, why, args...).Figures(bound, observed)
}

// None holds when n is 0.
func None(n int64, why string, args ...any) Verdict {
	return Holds(n == 0, why, args...).Figures(0, float64(n))
}

// Within holds when observed differs from predicted by at most tolerance, a share of
// predicted.
func Within(predicted, observed, tolerance float64) Verdict {
	off := math.Abs(observed-predicted) / math.Abs(predicted)
	return Holds(off <= tolerance, "%.4g observed, %.4g predicted: %.2g %% apart, %.2g %% allowed",
		observed, predicted, 100*off, 100*tolerance).Figures(predicted, observed)
}

// Figures adds the bound, or what was predicted, and what was observed.
func (v Verdict) Figures(bound, observed float64) Verdict {
	v.bound, v.observed = &bound, &observed
	return v
}

// enter puts v into the report.
func (v Verdict) enter(c *report.Claim) {
	if v.Outcome != "" {
		c.Outcome, c.Why = v.Outcome, v.Why
	}
	c.Predicted, c.Observed = v.bound, v.observed
}
