package scenario

import (
	"slices"
	"time"
)

// decline is how a pool goes down that nothing reaches: so many keys a second, from so many
// at the moment zero.
type decline struct {
	zero  time.Time
	keys  float64
	slope float64 // keys per second
}

// foretell fits a decline to the moments since which the pool held what it did: it goes down
// by a batch at a time, and only right after a step is its level to be had. The slope is the
// median of the slopes between any two of them (Theil and Sen), which a few steps that came
// late do not move.
func foretell(seen []level) (decline, bool) {
	steps := stepsOf(seen)
	if len(steps) < 3 {
		return decline{}, false
	}
	zero := steps[0].at
	x := func(l level) float64 { return l.at.Sub(zero).Seconds() }
	var slopes, levels []float64
	for i, a := range steps {
		for _, b := range steps[:i] {
			if x(a) > x(b) {
				slopes = append(slopes, float64(b.keys-a.keys)/(x(a)-x(b)))
			}
		}
	}
	slope := median(slopes)
	for _, s := range steps {
		levels = append(levels, float64(s.keys)+slope*x(s))
	}
	return decline{zero: zero, keys: median(levels), slope: slope}, slope > 0
}

// maxSteps bounds what is fitted: the slopes are of every two.
const maxSteps = 400

// stepsOf are the first looks at each new level, evenly thinned.
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

// empty is when the pool is.
func (d decline) empty() time.Time {
	return d.zero.Add(time.Duration(d.keys / d.slope * float64(time.Second)))
}

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	if n == 0 {
		return 0
	}
	return (values[(n-1)/2] + values[n/2]) / 2
}

// fewestLooks is how many looks it takes to tell how fast a pool fills.
const fewestLooks = 10

// filling is how many keys a second came into a pool from the look at which the first were
// there to the last one. What the first saw came before, nobody knows how fast.
func filling(seen []level) (rate float64, known bool) {
	begun := slices.IndexFunc(seen, func(l level) bool { return l.keys > 0 })
	if begun < 0 || len(seen)-begun < fewestLooks+2 {
		return 0, false
	}
	from, to := seen[begun], seen[len(seen)-1]
	return float64(to.keys-from.keys) / to.at.Sub(from.at).Seconds(), true
}

// takenOf is how many keys were taken between the first look and the last, and in what time.
func takenOf(seen []level) (keys int64, took time.Duration) {
	if len(seen) == 0 {
		return 0, 0
	}
	from, to := seen[0], seen[len(seen)-1]
	return from.keys - to.keys, to.at.Sub(from.at)
}
