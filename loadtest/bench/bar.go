package bench

import (
	"fmt"
	"slices"
)

// Series is one figure a round, in the order of the rounds.
type Series []float64

// Median is the middle one, or the mean of the two in the middle; 0 of nothing.
func (s Series) Median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// Range is the least and the most, 0 of nothing.
func (s Series) Range() (lo, hi float64) {
	if len(s) == 0 {
		return 0, 0
	}
	return slices.Min(s), slices.Max(s)
}

// over is the ratio to base, round by round.
func (s Series) over(base Series) Series {
	ratios := make(Series, min(len(s), len(base)))
	for i := range ratios {
		ratios[i] = s[i] / base[i]
	}
	return ratios
}

// Aim is where a bar lies. The zero Aim is that of a yardstick.
type Aim struct {
	sense sense
	bound float64
}

type sense uint8

const (
	none sense = iota
	atLeast
	atMost
)

// AtLeast is the aim of a figure that ought to be high.
func AtLeast(bound float64) Aim { return Aim{atLeast, bound} }

// AtMost is the aim of a figure that ought to be low.
func AtMost(bound float64) Aim { return Aim{atMost, bound} }

func (a Aim) holds(figure float64) bool {
	if a.sense == atMost {
		return figure <= a.bound
	}
	return figure >= a.bound
}

// Verdict is what became of a bar.
type Verdict string

// The verdicts.
const (
	Holds     Verdict = "holds"
	Misses    Verdict = "does not hold"
	Yardstick Verdict = "yardstick"
)

// Bar is one figure with its aim.
type Bar struct {
	What     string // "durable creations, SQLite"
	Unit     string // of what was measured
	Measured Series
	Versus   string // what the baseline is; "" when the figure itself is judged
	Baseline Series // in the same unit, of the same rounds
	Aim      Aim    // of the ratio where there is a baseline, else of the figure
	Note     string // what a reader must know to understand the figure
}

// judged is what the aim is about: ratios, or the figures themselves.
func (b *Bar) judged() Series {
	if b.Versus == "" {
		return b.Measured
	}
	return b.Measured.over(b.Baseline)
}

// finished are the bars that have figures, and a baseline where they want one.
func finished(bars []Bar) []Bar {
	return slices.DeleteFunc(bars, func(b Bar) bool { return len(b.judged()) == 0 })
}

// Verdict judges the median over the rounds; a bar without a figure does not hold.
func (b *Bar) Verdict() Verdict {
	switch judged := b.judged(); {
	case b.Aim.sense == none:
		return Yardstick
	case len(judged) > 0 && b.Aim.holds(judged.Median()):
		return Holds
	}
	return Misses
}

// aim says the aim in words.
func (b *Bar) aim() string {
	unit := b.Unit
	if b.Versus != "" {
		unit = times
	}
	switch b.Aim.sense {
	case atLeast:
		return "≥ " + quantity(b.Aim.bound, unit)
	case atMost:
		return "≤ " + quantity(b.Aim.bound, unit)
	case none:
	}
	return ""
}

// times is the unit of a ratio.
const times = "times"

// quantity is a figure with its unit, to three or four digits: 33.3k/s, 0.35.
func quantity(v float64, unit string) string {
	switch {
	case unit == times:
		return fmt.Sprintf("%.2f", v)
	case v >= 1e6 && perSecond(unit):
		return fmt.Sprintf("%.3gM%s", v/1e6, unit)
	case v >= 1e3 && perSecond(unit):
		return fmt.Sprintf("%.3gk%s", v/1e3, unit)
	case perSecond(unit):
		return fmt.Sprintf("%.4g%s", v, unit)
	}
	return fmt.Sprintf("%.4g %s", v, unit)
}

func perSecond(unit string) bool { return unit == rate }

// rate is the unit of what happens so often a second.
const rate = "/s"
