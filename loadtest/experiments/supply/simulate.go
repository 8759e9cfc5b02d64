package supply

import (
	"context"
	"time"

	"keypool/loadtest/simulate"
)

// simulate computes with the simulator how long it takes until the pool is empty. The simulated server takes two
// batches, as the server of the run did. After that, the simulated pool holds as many keys as the pool of the run held
// when the worker stopped.
func (r *record) simulate(ctx context.Context) error {
	const begin = time.Second // the load begins when the server holds its batches
	patience := begin + 2*r.lasts(r.capacity)
	out, err := simulate.Run(ctx, simulate.Config{
		Servers: 1, Capacity: r.capacity, Filled: keysAt(r.seen, r.started) + 2*batch, BatchMin: batch, BatchMax: batch,
		Duration: patience, Step: lookEvery, Sample: patience, Load: simulate.Steady(begin, patience, r.rate, 1),
	})
	if err == nil {
		r.simulated = out.EmptyAt - begin
	}
	return err
}
