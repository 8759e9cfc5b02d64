package measure

import (
	"context"
	"fmt"
	"sync"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/report"
)

// Pulse reports the progress of a run once a second: the phase, the rate and the latency of a load, and
// the state of the pool. It also keeps these figures as samples. Its methods may be called concurrently.
type Pulse struct {
	sampler *lab.Sampler[lab.Second]

	mu       sync.Mutex
	phase    string
	recorder *loadtest.Recorder
}

// NewPulse starts a pulse of the experiment with the given name. The parameter expected is the approximate duration
// of the experiment. If p has an admin address, the pulse reads the state of the pool from p. The pulse stops when
// the run ends.
func NewPulse(t *experiment.T, name string, p *lab.Program, expected time.Duration) *Pulse {
	pulse, started := &Pulse{phase: "starting"}, time.Now()
	last := started // the time of the last sample
	pulse.sampler = lab.Watch(t, time.Second, func(context.Context) (lab.Second, error) {
		var s lab.Second
		if p.Admin != "" {
			if status, err := p.TryStatus(); err == nil { // otherwise all members stay unknown
				s.Status = status
			}
		}
		now := time.Now()
		phase, recorder := pulse.current()
		if recorder != nil {
			s.Load = recorder.Window()
		}
		live := experiment.Live{
			Experiment: name, Phase: phase, Done: min(now.Sub(started).Seconds()/expected.Seconds(), 0.99),
			Rate: float64(s.Load.Sent) / now.Sub(last).Seconds(), P99: s.Load.Latency.P99, PoolKeys: s.Status.PoolKeys,
		}
		last = now
		if s.Status.RunwaySeconds != nil {
			runway := time.Duration(*s.Status.RunwaySeconds * float64(time.Second))
			live.Runway = &runway
		}
		t.Live(live)
		return s, nil
	})
	return pulse
}

// Enter begins a phase of the run, such as "filling the pool".
func (p *Pulse) Enter(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase = fmt.Sprintf(format, args...)
}

// Follow makes the pulse show the load of r from now on, or no load if r is nil. No other code may call
// r.Window.
func (p *Pulse) Follow(r *loadtest.Recorder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recorder = r
}

func (p *Pulse) current() (phase string, recorder *loadtest.Recorder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.phase, p.recorder
}

// Stop ends the pulse and returns its samples, one for each second. It may be called more than once.
func (p *Pulse) Stop() []lab.Sample[lab.Second] { return p.sampler.Stop() }

// P99Line returns the p99 of each second of a load, in milliseconds.
func P99Line(seconds []lab.Sample[lab.Second], start time.Time) report.Series {
	return report.Series{Name: "p99 of each second", XY: lab.Points(seconds, start, func(s lab.Second) (float64, bool) {
		return milliseconds(s.Load.Latency.P99), s.Load.Sent > 0
	})}
}
