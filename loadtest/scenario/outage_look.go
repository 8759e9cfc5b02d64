package scenario

import (
	"context"
	"fmt"
	"time"

	"keypool/kgs"
	"keypool/loadtest/testbed"

	"golang.org/x/sync/errgroup"
)

// fleetLook is what the servers said of themselves.
type fleetLook struct {
	Open, HalfOpen, Closed int // servers by the state of their breaker
	Batch                  int // servers whose next key would come from a batch
	Local                  int64
	Each                   []localKeys // of each server, in their order
}

// localKeys is how many keys a server held in memory.
type localKeys struct {
	At   time.Time // when it had said so
	Keys int64
}

// look asks all servers at once. It fails when one of them does not answer.
func (f *fleet) look(ctx context.Context) (fleetLook, error) {
	statuses := make([]testbed.Status, len(f.servers))
	l := fleetLook{Each: make([]localKeys, len(f.servers))}
	var asked errgroup.Group
	for i, server := range f.servers {
		asked.Go(func() (err error) {
			statuses[i], err = testbed.AskStatus(ctx, server.Admin)
			l.Each[i].At = time.Now()
			return err
		})
	}
	if err := asked.Wait(); err != nil {
		return fleetLook{}, err
	}
	for i, s := range statuses {
		if s.LocalKeys != nil {
			l.Each[i].Keys = *s.LocalKeys
			l.Local += *s.LocalKeys
		}
		count(s.Breaker, map[string]*int{"open": &l.Open, "half-open": &l.HalfOpen, "closed": &l.Closed})
		count(s.ServingFrom, map[string]*int{"batch": &l.Batch})
	}
	return l, nil
}

// count adds one to the counter of a word, if it is known and has one.
func count(word *string, counters map[string]*int) {
	if word != nil && counters[*word] != nil {
		*counters[*word]++
	}
}

// await looks until enough, and fails with what is wanted when it takes too long.
func (f *fleet) await(ctx context.Context, what string, enough func(fleetLook) bool) error {
	ctx, cancel := context.WithTimeout(ctx, fleetPatience)
	defer cancel()
	for {
		l, err := f.look(ctx)
		if err == nil && enough(l) {
			return nil
		}
		if pause(ctx, lookPause); ctx.Err() != nil {
			return fmt.Errorf("%w: %s, last seen %+v, error %w", errLate, what, l, err)
		}
	}
}

// takenAtRandom is how many random keys the servers have taken, as they tell it.
func (f *fleet) takenAtRandom(ctx context.Context) (sum float64, err error) {
	for _, server := range f.servers {
		metrics, err := testbed.AskMetrics(ctx, server.Admin)
		if err != nil {
			return 0, err
		}
		for _, metric := range metrics["kgs_keys_taken_total"].GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "source" && label.GetValue() == kgs.SourceRandom {
					sum += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return sum, nil
}
