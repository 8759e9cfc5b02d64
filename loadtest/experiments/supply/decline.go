package supply

import (
	"slices"
	"time"

	"keypool/loadtest/measure"
)

// decline is how a pool declines that no key reaches: by slope keys per second, from keys at the
// moment zero.
type decline struct {
	zero  time.Time
	keys  float64
	slope float64 // keys per second, 0: unknown
}

// maxSteps bounds the levels of a fit: it uses the slopes between every two of them.
const maxSteps = 400

// predict fits a decline to levels. A pool loses a batch at a time, and its level is exact only
// right after such a step, so only steps count. The slope is the median of the slopes between any
// two steps (the Theil-Sen estimator), which a few late steps do not change.
func predict(seen []level) (decline, bool) {
	steps := stepsOf(seen)
	if len(steps) < 3 {
		return decline{}, false
	}
	zero := steps[0].at
	x := func(l level) float64 { return l.at.Sub(zero).Seconds() }
	var slopes, levels measure.Series
	for i, a := range steps {
		for _, b := range steps[:i] {
			if x(a) > x(b) {
				slopes = append(slopes, float64(b.keys-a.keys)/(x(a)-x(b)))
			}
		}
	}
	slope := slopes.Median()
	for _, s := range steps {
		levels = append(levels, float64(s.keys)+slope*x(s))
	}
	return decline{zero: zero, keys: levels.Median(), slope: slope}, slope > 0
}

// stepsOf returns the first look at each new level, evenly thinned.
func stepsOf(seen []level) []level {
	var steps []level
	for i := range seen {
		if i > 0 && seen[i].keys < seen[i-1].keys {
			steps = append(steps, seen[i])
		}
	}
	if len(steps) <= maxSteps {
		return steps
	}
	kept := make([]level, 0, maxSteps)
	for i := range maxSteps {
		kept = append(kept, steps[i*len(steps)/maxSteps])
	}
	return kept
}

// empty is the moment at which the pool holds no key.
func (d decline) empty() time.Time {
	return d.zero.Add(time.Duration(d.keys / d.slope * float64(time.Second)))
}

// fewestLooks is how many looks a fill rate needs.
const fewestLooks = 10

// fillRate is how many keys per second arrived between the first look that saw keys and the last
// look. Nothing is known of the keys of the first look.
func fillRate(seen []level) (rate float64, known bool) {
	first := slices.IndexFunc(seen, func(l level) bool { return l.keys > 0 })
	if first < 0 || len(seen)-first < fewestLooks+2 {
		return 0, false
	}
	from, to := seen[first], seen[len(seen)-1]
	return float64(to.keys-from.keys) / to.at.Sub(from.at).Seconds(), true
}

// taken is how many keys were taken between the first look and the last, and in what time.
func taken(seen []level) (keys int64, took time.Duration) {
	if len(seen) == 0 {
		return 0, 0
	}
	from, to := seen[0], seen[len(seen)-1]
	return from.keys - to.keys, to.at.Sub(from.at)
}
