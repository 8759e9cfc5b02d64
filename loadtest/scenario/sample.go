package scenario

import (
	"context"
	"time"

	"keypool/loadtest/report"
)

// sampled is what was seen at one moment.
type sampled[T any] struct {
	At    time.Time // when the answer had come
	Value T
	Err   error // then Value means nothing
}

// sampler looks at something again and again, and keeps what it saw.
type sampler[T any] struct {
	cancel  context.CancelFunc
	done    chan struct{}
	samples []sampled[T]
}

// sample calls look at once and then every so often, until ctx ends or it is stopped. A
// look that takes longer than that puts off the next one.
func sample[T any](ctx context.Context, every time.Duration, look func(context.Context) (T, error)) *sampler[T] {
	ctx, cancel := context.WithCancel(ctx) //nolint:gosec // stop calls it
	s := &sampler[T]{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for ctx.Err() == nil {
			value, err := look(ctx)
			if ctx.Err() == nil { // else it was cut off by us
				s.samples = append(s.samples, sampled[T]{At: time.Now(), Value: value, Err: err})
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	return s
}

// stop ends the looking, waits for it, and returns what was seen. It may be called again.
func (s *sampler[T]) stop() []sampled[T] {
	s.cancel()
	<-s.done
	return s.samples
}

// series is a line of what was seen over the seconds since start; what value does not
// know leaves a gap in time.
func series[T any](name string, start time.Time, samples []sampled[T], value func(T) (y float64, known bool)) report.Series {
	s := report.Series{Name: name}
	for _, seen := range samples {
		if seen.Err != nil {
			continue
		}
		if y, known := value(seen.Value); known {
			s.XY = append(s.XY, [2]float64{seen.At.Sub(start).Seconds(), y})
		}
	}
	return s
}

// number is a member that may be unknown, for [series].
func number[N int64 | float64](n *N) (float64, bool) {
	if n == nil {
		return 0, false
	}
	return float64(*n), true
}

// thinned keeps at most n points of a series, evenly by their order, the last among them.
func thinned(s report.Series, n int) report.Series {
	if len(s.XY) <= n {
		return s
	}
	kept := make([][2]float64, 0, n)
	for i := range n {
		kept = append(kept, s.XY[(i+1)*len(s.XY)/n-1])
	}
	s.XY = kept
	return s
}
