// Package rounds measures several things beside each other, one after the other in each
// round, so that a machine that drifts drifts for all alike.
//
// Invariant: what failed in one round has no figures at all, so all figures are of the
// same rounds.
package rounds

import (
	"context"
	"errors"
	"fmt"
)

// Subject is what is measured in a round.
type Subject struct {
	Name      string
	Unit      string
	Measure   func(context.Context) (float64, error)
	Yardstick bool // it may fail: there is then nothing to see of it
}

// Alternate measures all subjects in each of so many rounds, and returns what each came to:
// a figure a round, or nothing of one that failed in any. It goes on with the others, and
// returns the errors of those that are no yardsticks. log is told each figure.
func Alternate(ctx context.Context, count int, log func(line string), subjects ...Subject) ([]Series, error) {
	figures := make([]Series, len(subjects))
	failed := make([]bool, len(subjects))
	var errs []error
	for round := range count {
		for i, s := range subjects {
			if failed[i] {
				continue
			}
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
