package bench

import (
	"context"

	"keypool/loadtest/rounds"
	"keypool/loadtest/wrk"
)

// load is one way to load a server, for as long as a subject is measured.
type load struct {
	wrk.Load
	// check, if any, is told after a run how many answers there were.
	check func(ctx context.Context, answers int64) error
}

// wrk is the server under this load, in answers a second.
func (r *run) wrk(name string, l load) rounds.Subject {
	l.Duration = r.Each
	return rounds.Subject{Name: name, Unit: rounds.PerSecond, Measure: func(ctx context.Context) (float64, error) {
		tally, err := l.Run(ctx)
		if err != nil {
			return 0, err
		}
		if l.check != nil {
			if err := l.check(ctx, tally.Requests); err != nil {
				return 0, err
			}
		}
		return tally.PerSecond(), nil
	}}
}
