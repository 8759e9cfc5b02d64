// Package measure compares the speeds of several programs in rounds. Each round measures all programs
// one after the other, so a busy machine slows all of them alike. Baselines run in separate processes.
//
// Vocabulary: a subject is one thing that is measured in every round. A baseline is a simple
// operation with which the service is compared.
//
// Invariants:
//
//   - all figures of a comparison come from the same rounds. A subject that fails in one round
//     therefore has no figure at all;
//   - an answer that is known to be wrong is an error and never counts in a figure.
package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Subject is one thing that is measured once in each round.
type Subject struct {
	Name     string
	Unit     string
	Measure  func(context.Context) (float64, error)
	Optional bool // if the subject fails, it has no figure, and Alternate returns no error
	Follows  bool // each round measures the subject directly after its predecessor in the list
}

// order returns the order in which the given round measures the subjects. The parameter count is the number of
// rounds. Successive rounds start at different subjects of the list. A round that reaches the end of the list
// continues with the first subject. A periodic disturbance therefore does not always affect the same subject.
func order(subjects []Subject, round, count int) []int {
	var groups [][]int // each group contains subjects that follow each other
	for i, s := range subjects {
		if last := len(groups) - 1; last >= 0 && s.Follows {
			groups[last] = append(groups[last], i)
			continue
		}
		groups = append(groups, []int{i})
	}
	if len(groups) == 0 {
		return nil
	}
	first := round * max(1, len(groups)/count) % len(groups)
	return slices.Concat(slices.Concat(groups[first:]...), slices.Concat(groups[:first]...))
}

// Alternate measures all subjects in each round. The parameter count is the number of rounds. Alternate returns
// the figures of each subject in the order of the rounds. If a subject fails, Alternate continues without the
// subject and returns no figures for it. It returns the error of the subject if the subject is not optional. If ctx
// ends, Alternate returns no figures and the error of ctx. It calls log with one line for each figure and each
// failure.
func Alternate(ctx context.Context, count int, log func(line string), subjects ...Subject) ([]Series, error) {
	figures := make([]Series, len(subjects))
	failed := make([]bool, len(subjects))
	var errs []error
	for round := range count {
		for _, i := range order(subjects, round, count) {
			if failed[i] {
				continue
			}
			s := subjects[i]
			figure, err := s.Measure(ctx)
			if ctx.Err() != nil {
				return make([]Series, len(subjects)), ctx.Err()
			}
			if err == nil {
				log(fmt.Sprintf("round %d of %d: %s: %s", round+1, count, s.Name, Quantity(figure, s.Unit)))
				figures[i] = append(figures[i], figure)
				continue
			}
			log(s.Name + " failed and is not measured again: " + err.Error())
			figures[i], failed[i] = nil, true
			if !s.Optional {
				errs = append(errs, fmt.Errorf("%s: %w", s.Name, err))
			}
		}
	}
	return figures, errors.Join(errs...)
}

// Series holds one figure for each round, in the order of the rounds.
type Series []float64

// Median returns the middle figure, or the mean of the two middle figures. It returns 0 for an empty
// series.
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

// Over returns the ratio of s to base in each round.
func (s Series) Over(base Series) Series {
	ratios := make(Series, min(len(s), len(base)))
	for i := range ratios {
		ratios[i] = s[i] / base[i]
	}
	return ratios
}

// Spread formats the median with the smallest and the largest figure, such as "0.35 (0.33 to 0.36)".
func (s Series) Spread(unit string) string {
	if len(s) < 2 {
		return Quantity(s.Median(), unit)
	}
	bare := func(v float64) string { return strings.TrimSuffix(Quantity(v, unit), " "+unit) }
	return fmt.Sprintf("%s (%s to %s)", Quantity(s.Median(), unit), bare(slices.Min(s)), bare(slices.Max(s)))
}

// Units with a special format.
const (
	PerSecond = "/s"    // a rate
	Times     = "times" // a ratio
)

// Quantity formats a figure with its unit, such as 33.3k/s. A ratio has two decimals and no unit: 0.35.
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
