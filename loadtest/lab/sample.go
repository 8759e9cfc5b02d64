package lab

import (
	"context"
	"time"
)

// Sample is one observation.
type Sample[V any] struct {
	At    time.Time // when the observation was complete
	Value V
	Err   error // if not nil, Value is meaningless
}

// Sampler makes observations periodically and keeps them.
type Sampler[V any] struct {
	cancel  context.CancelFunc
	done    chan struct{}
	samples []Sample[V]
}

// Watch calls the function look immediately, and then at intervals, until Stop is called or the run ends. The
// parameter every is the length of an interval. If a call takes longer than the interval, the next call begins when
// this call has ended.
func Watch[V any](r T, every time.Duration, look func(context.Context) (V, error)) *Sampler[V] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context())) //nolint:gosec // Stop calls cancel
	s := &Sampler[V]{cancel: cancel, done: make(chan struct{})}
	r.Cleanup(func() { s.Stop() })
	go func() {
		defer close(s.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for ctx.Err() == nil {
			value, err := look(ctx)
			if ctx.Err() == nil { // otherwise Stop has cancelled the call
				s.samples = append(s.samples, Sample[V]{At: time.Now(), Value: value, Err: err})
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	return s
}

// Stop ends the sampler and returns its samples. It may be called more than once.
func (s *Sampler[V]) Stop() []Sample[V] {
	s.cancel()
	<-s.done
	return s.samples
}

// Points converts samples to the points of a line, with seconds since start as x. It omits samples with
// an error or an unknown value.
func Points[V any](samples []Sample[V], start time.Time, value func(V) (y float64, known bool)) [][2]float64 {
	var xy [][2]float64
	for _, s := range samples {
		if s.Err != nil {
			continue
		}
		if y, known := value(s.Value); known {
			xy = append(xy, [2]float64{s.At.Sub(start).Seconds(), y})
		}
	}
	return xy
}
