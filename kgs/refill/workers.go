package refill

import (
	"context"
	"errors"
	"sync"
)

// Workers fills a pool that consists of several lists, with one worker for each list. If a worker
// cannot reach its list, the other workers continue.
type Workers []*Worker

var _ Runner = Workers(nil)

// Run runs all workers until ctx ends, and returns their errors.
func (w Workers) Run(ctx context.Context) error {
	errs := make([]error, len(w))
	var running sync.WaitGroup
	for i, worker := range w {
		running.Go(func() { errs[i] = worker.Run(ctx) })
	}
	running.Wait()
	return errors.Join(errs...)
}

// Rate returns the smoothed rate, in keys per second, at which the workers together push keys.
func (w Workers) Rate() (sum float64) {
	for _, worker := range w {
		sum += worker.Rate()
	}
	return sum
}

// Share returns the capacity of one list of a pool with n lists. The capacities of all lists add up to the capacity of
// the pool. The parameter list is the index of the list, counted from 0. If the number of lists was reduced, lists with
// an index of n or more may still exist. Their capacity is 0, so that their workers push no keys.
func Share(capacity int64, list, n int) int64 {
	if list >= n {
		return 0
	}
	share := capacity / int64(n)
	if int64(list) < capacity%int64(n) {
		share++
	}
	return share
}
