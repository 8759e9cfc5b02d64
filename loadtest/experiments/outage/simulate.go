package outage

import (
	"cmp"
	"context"
	"slices"
	"time"

	"keypool/loadtest/simulate"
)

// simulate computes with the simulator how long the local keys last. Each simulated server begins with two batches. It
// gets its creations at the times at which the client of the real server sent them. The simulator does not get the
// number of local keys that the real servers had when Redis was killed, so its result is a prediction.
func (r *record) simulate(ctx context.Context) error {
	const begin, step = time.Second, 5 * time.Millisecond // the load begins when the servers hold their batches
	type arrival struct {
		at     time.Time
		server int
	}
	var all []arrival
	for i, creations := range r.creations {
		for _, c := range creations {
			all = append(all, arrival{c.at, i})
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.server, b.server)) })
	since := func(t time.Time) time.Duration { return begin + t.Sub(all[0].at) }
	end := since(r.started) + step
	out, err := simulate.Run(ctx, simulate.Config{
		Servers: r.servers, Capacity: poolKeys, Filled: poolKeys, BatchMin: r.batch, BatchMax: r.batch, Workers: 1,
		Duration: end, Step: step, Sample: end,
		Events: []simulate.Event{{At: since(r.killed), Kind: simulate.RedisStops}, {At: since(r.started), Kind: simulate.RedisStarts}},
		Load: func(yield func(time.Duration, int) bool) {
			for _, a := range all {
				if a.at.After(r.started) || !yield(since(a.at), a.server) {
					return
				}
			}
		},
	})
	if err == nil {
		r.simulated = out.MeanLasted()
	}
	return err
}
