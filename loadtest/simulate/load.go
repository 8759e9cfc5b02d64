package simulate

import (
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

// Load yields creations in the order of time. It yields two values for each creation: the time since the start of the
// run, and the index of the server.
type Load = iter.Seq2[time.Duration, int]

// Steady returns a load at a constant rate, in creations per second. The first creation is at the time from, and all
// creations are before the time until. The creations go to the servers in turn.
func Steady(from, until time.Duration, rate float64, servers int) Load {
	return func(yield func(time.Duration, int) bool) {
		for n := 0; ; n++ {
			at := from + time.Duration(float64(n)/rate*float64(time.Second))
			if at >= until || !yield(at, n%servers) {
				return
			}
		}
	}
}

// daily returns a load whose rate follows a cosine. The rate is lowest at the start and at the end. In the middle it
// is the average rate multiplied by peak. Each creation goes to a random server. The creations of a step are sorted by
// server, so that the simulation accesses the memory of the servers in order.
func daily(keys int64, duration, step time.Duration, peak float64, servers int, seed uint64) Load {
	return func(yield func(time.Duration, int) bool) {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a run must be repeatable
		n, length, counts := int64(0), duration.Seconds(), make([]int, servers)
		for at := step; ; at += step {
			x := min(1, at.Seconds()/length)
			// The factor of keys is the integral of 1 - (peak-1) cos(2 pi t) over t, from 0 to x.
			due := int64(math.Round(float64(keys) * (x - (peak-1)*math.Sin(2*math.Pi*x)/(2*math.Pi))))
			for ; n < due; n++ {
				counts[random.IntN(servers)]++
			}
			for server, count := range counts {
				for range count {
					if !yield(at-step/2, server) {
						return
					}
				}
				counts[server] = 0
			}
			if at >= duration {
				return
			}
		}
	}
}
