package rounds

import (
	"fmt"
	"slices"
	"strings"
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

// Over is the ratio to base, round by round.
func (s Series) Over(base Series) Series {
	ratios := make(Series, min(len(s), len(base)))
	for i := range ratios {
		ratios[i] = s[i] / base[i]
	}
	return ratios
}

// Spread is the median with the least and the most of the rounds.
func (s Series) Spread(unit string) string {
	lo, hi := s.Range()
	if len(s) < 2 {
		return Quantity(s.Median(), unit)
	}
	bare := func(v float64) string { return strings.TrimSuffix(Quantity(v, unit), " "+unit) }
	return fmt.Sprintf("%s (%s to %s)", Quantity(s.Median(), unit), bare(lo), bare(hi))
}

// Units that are written in a way of their own.
const (
	PerSecond = "/s"    // of what happens so often a second
	Times     = "times" // of a ratio
)

// Quantity is a figure with its unit, to three or four digits: 33.3k/s, 0.35.
func Quantity(v float64, unit string) string {
	switch {
	case unit == Times:
		return fmt.Sprintf("%.2f", v)
	case v >= 1e6 && unit == PerSecond:
		return fmt.Sprintf("%.3gM%s", v/1e6, unit)
	case v >= 1e3 && unit == PerSecond:
		return fmt.Sprintf("%.3gk%s", v/1e3, unit)
	case unit == PerSecond:
		return fmt.Sprintf("%.4g%s", v, unit)
	}
	return fmt.Sprintf("%.4g %s", v, unit)
}
