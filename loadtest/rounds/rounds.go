// Package rounds measures several things beside each other, one after the other in each
// round, so that a machine that drifts drifts for all alike; and each round begins with
// another one, so that what comes back every so often is not always borne by the same.
//
// Invariant: what failed in one round has no figures at all, so all figures are of the
// same rounds.
package rounds

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Subject is what is measured in a round.
type Subject struct {
	Name      string
	Unit      string
	Measure   func(context.Context) (float64, error)
	Yardstick bool // it may fail: there is then nothing to see of it
	Follows   bool // it comes right after the one before it, in each round
}

// order is that of the subjects in a round: they stand in a ring, and a round begins as far
// behind the start of the last one as there is room for all rounds.
func order(subjects []Subject, round, count int) []int {
	var groups [][]int // of subjects that follow each other
	for i, s := range subjects {
		if len(groups) == 0 || !s.Follows {
			groups = append(groups, nil)
		}
		last := len(groups) - 1
		groups[last] = append(groups[last], i)
	}
	first := 0
	if len(groups) > 0 {
		first = round * max(1, len(groups)/count) % len(groups)
	}
	return slices.Concat(slices.Concat(groups[first:]...), slices.Concat(groups[:first]...))
}

// Alternate measures all subjects in each of so many rounds, and returns what each came to:
// a figure a round, or nothing of one that failed in any. It goes on with the others, and
// returns the errors of those that are no yardsticks. log is told each figure. Figures are in
// the order of the subjects, whatever that of the rounds was.
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
			log(s.Name + " is left out: " + err.Error())
			figures[i], failed[i] = nil, true
			if !s.Yardstick {
				errs = append(errs, fmt.Errorf("%s: %w", s.Name, err))
			}
		}
	}
	return figures, errors.Join(errs...)
}
