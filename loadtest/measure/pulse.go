package measure

import (
	"fmt"
	"sync"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/report"
)

// Pulse shows once a second what a run does, with the rate and the latency of a load and the
// pool of a program, and keeps what it saw. Its methods may be called concurrently.
type Pulse struct {
	sampler *lab.Sampler[lab.Second]

	mu       sync.Mutex
	phase    string
	recorder *loadtest.Recorder
}

// NewPulse starts a pulse of the experiment name, which takes about as long as expected. p may
// have no admin address. The pulse ends with the run.
func NewPulse(t *experiment.T, name string, p *lab.Program, expected time.Duration) *Pulse {
	pulse, started := &Pulse{phase: "starting"}, time.Now()
	show := func(s lab.Second) {
		live := experiment.Live{
			Experiment: name, Phase: pulse.Phase(), Done: min(time.Since(started).Seconds()/expected.Seconds(), 0.99),
			Rate: s.Rate, P99: s.Load.Latency.P99, PoolKeys: s.Status.PoolKeys,
		}
		if s.Status.RunwaySeconds != nil {
			runway := time.Duration(*s.Status.RunwaySeconds * float64(time.Second))
			live.Runway = &runway
		}
		t.Live(live)
	}
	pulse.sampler = lab.WatchSeconds(t, p, pulse.followed, show)
	return pulse
}

// Enter begins a phase of the run, such as "filling the pool".
func (p *Pulse) Enter(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase = fmt.Sprintf(format, args...)
}

// Phase is the phase of the run.
func (p *Pulse) Phase() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.phase
}

// Follow shows the load of a recorder from now on, nil for none. Nothing else may call the
// Window of the recorder.
func (p *Pulse) Follow(r *loadtest.Recorder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recorder = r
}

func (p *Pulse) followed() *loadtest.Recorder {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.recorder
}

// Stop ends the pulse and returns every second that it saw. It may be called again.
func (p *Pulse) Stop() []lab.Sample[lab.Second] { return p.sampler.Stop() }

// P99Line is the p99 of each second of a load, in milliseconds.
func P99Line(seconds []lab.Sample[lab.Second], start time.Time) report.Series {
	return report.Series{Name: "p99 of each second", XY: lab.Points(seconds, start, func(s lab.Second) (float64, bool) {
		return milliseconds(s.Load.Latency.P99), s.Load.Sent > 0
	})}
}
