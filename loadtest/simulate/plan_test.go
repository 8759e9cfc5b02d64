package simulate

import (
	"slices"
	"testing"
	"time"

	"keypool/kgs/refill"
	"keypool/loadtest/plan"
)

// drained runs a pool without a worker and returns the first signal page of the dead man's switch, if there is one. The
// pool has the given capacity and the given number of keys. A server takes batches of the given size at a constant rate.
func drained(t *testing.T, capacity, keys int64, batch int, rate float64, lasts time.Duration) (page Signal, paged bool) {
	t.Helper()
	out, err := Run(t.Context(), Config{
		Servers: 1, Capacity: capacity, Filled: keys, BatchMin: batch, BatchMax: batch, Duration: lasts,
		Step: 10 * time.Millisecond, Sample: time.Second, Load: Steady(0, lasts, rate, 1),
	})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(out.Signals, func(s Signal) bool { return s.State == string(refill.StatePage) })
	if i < 0 {
		return Signal{}, false
	}
	return out.Signals[i], true
}

// The first case is like a measured run. In this run, servers took 85 keys per second from a pool of 2,000 keys. The
// pool signalled page 12 s after its worker was killed, and then had 900 keys.
func TestDrainedPoolSignalsPageAtPlannedNumberOfKeys(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		capacity int64
		batch    int
		rate     float64
	}{{2000, 100, 85}, {100_000, 10, 1000}, {40_000, 10, 100}} {
		planned := plan.Make(plan.Input{Creations: tt.rate, Years: 1, Servers: 1, Capacity: tt.capacity, CodeLength: 6}).Pool.PageBelow
		page, paged := drained(t, tt.capacity, tt.capacity, tt.batch, tt.rate, seconds(float64(tt.capacity)/tt.rate))
		t.Logf("%d keys at %v/s: page after %v s at %d keys, planned below %v keys", tt.capacity, tt.rate, page.At, page.Keys, planned)
		// The switch looks once a second, and a server takes whole batches.
		slack := tt.rate + float64(2*tt.batch)
		if got := float64(page.Keys); !paged || got > planned+slack || got < planned-slack {
			t.Errorf("a pool of %d keys at %v/s signals page at %d keys, planned below %v keys", tt.capacity, tt.rate, page.Keys, planned)
		}
	}
}

// A pool with the planned capacity causes no signal page of the product's dead man's switch. A pool that is smaller
// by a tenth causes the signal.
func TestPoolOfPlannedCapacityDoesNotSignalPageDuringWorkerOutage(t *testing.T) {
	t.Parallel()
	const rate, batch = 85, 2
	for _, outage := range []time.Duration{5 * time.Second, 12 * time.Second, 3 * time.Minute, 10 * time.Minute} {
		capacity := plan.Make(plan.Input{Creations: rate, Years: 1, Servers: 1, Outage: outage.Seconds(), Capacity: 100, CodeLength: 6}).Outage.Capacity
		// In the worst case, the outage begins while the pool is at its low-water mark: the worker refills the pool
		// only below this mark. The server first takes two batches, so the test adds two batches. The third batch is a
		// margin.
		if page, paged := drained(t, capacity, refill.LowWater(capacity)+3*batch, batch, rate, outage); paged {
			t.Errorf("a pool of %d keys signals page after %v s of an outage of %v: %+v", capacity, page.At, outage, page)
		}
		smaller := capacity * 9 / 10
		if _, paged := drained(t, smaller, refill.LowWater(smaller)+3*batch, batch, rate, outage); !paged {
			t.Errorf("a pool of %d keys signals no page in an outage of %v, so the planned %d keys are too many", smaller, outage, capacity)
		}
	}
}
