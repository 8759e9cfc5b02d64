package lab

import (
	"context"
	"time"

	"keypool/loadtest"
)

// Sample is what was seen at one moment.
type Sample[V any] struct {
	At    time.Time // when the answer was there
	Value V
	Err   error // when not nil, Value means nothing
}

// Sampler looks at something again and again and keeps what it saw.
type Sampler[V any] struct {
	cancel  context.CancelFunc
	done    chan struct{}
	samples []Sample[V]
}

// Watch calls look at once and then every period, until it is stopped or the run is over. A look
// that takes longer than the period delays the next one.
func Watch[V any](r T, every time.Duration, look func(context.Context) (V, error)) *Sampler[V] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context())) //nolint:gosec // Stop calls it
	s := &Sampler[V]{cancel: cancel, done: make(chan struct{})}
	r.Cleanup(func() { s.Stop() })
	go func() {
		defer close(s.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for ctx.Err() == nil {
			value, err := look(ctx)
			if ctx.Err() == nil { // else Stop has cut it short
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

// Stop ends the sampler and returns what it saw. It may be called again.
func (s *Sampler[V]) Stop() []Sample[V] {
	s.cancel()
	<-s.done
	return s.samples
}

// Points are the samples as points of a line, in seconds since start. A sample whose value is
// not known leaves a gap.
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

// Number is a member that may be unknown, for [Points].
func Number[N int64 | float64](n *N) (float64, bool) {
	if n == nil {
		return 0, false
	}
	return float64(*n), true
}

// Second is one second of a run.
type Second struct {
	Load   loadtest.Figures // of this second
	Rate   float64          // requests sent per second
	Status Status           // all unknown when the program did not answer
}
