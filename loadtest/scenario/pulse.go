package scenario

import (
	"context"
	"sync"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/testbed"
)

// pulse tells each second how far a scenario is, and keeps what it told. Its methods may
// be called concurrently.
type pulse struct {
	run      *Run
	started  time.Time
	expected time.Duration
	sampler  *sampler[beat]

	mu       sync.Mutex
	name     string
	phase    string
	recorder *loadtest.Recorder
	admin    string
	last     time.Time
}

// beat is one second of a scenario.
type beat struct {
	Load   loadtest.Figures // of this second, if a load is watched
	Rate   float64          // requests sent per second, of this second
	Status testbed.Status   // of the server that is watched; all unknown without one
}

// pulse begins to tell; the scenario is expected to take so long in all. It goes on until it
// is stopped, also when ctx has ended: then links are still read back.
func (r *Run) pulse(ctx context.Context, name string, expected time.Duration) *pulse {
	now := time.Now()
	p := &pulse{run: r, name: name, started: now, last: now, expected: expected}
	p.sampler = sample(context.WithoutCancel(ctx), time.Second, p.beat)
	return p
}

// enter begins a phase of the scenario, such as "filling the pool".
func (p *pulse) enter(phase string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase = phase
}

// watch takes rate and latency from recorder from now on, and pool and runway from the
// server whose admin listener is at the URL admin, "" for none. It is the recorder's one
// observer. Without a recorder there is no rate.
func (p *pulse) watch(recorder *loadtest.Recorder, admin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recorder, p.admin = recorder, admin
}

// stop ends the telling and returns every second of it.
func (p *pulse) stop() []sampled[beat] { return p.sampler.stop() }

func (p *pulse) beat(ctx context.Context) (beat, error) {
	p.mu.Lock()
	admin := p.admin
	p.mu.Unlock()
	var b beat
	if admin != "" {
		if status, err := testbed.AskStatus(ctx, admin); err == nil {
			b.Status = status // else it is unknown, as it is to be shown
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.recorder != nil {
		b.Load = p.recorder.Window()
		b.Rate = float64(b.Load.Sent) / max(now.Sub(p.last).Seconds(), 0.001)
	}
	p.last = now
	p.run.Live(Live{
		Scenario: p.name, Phase: p.phase, Done: min(now.Sub(p.started).Seconds()/p.expected.Seconds(), 0.99),
		Rate: b.Rate, P99: b.Load.Latency.P99, PoolKeys: b.Status.PoolKeys, Runway: seconds(b.Status.RunwaySeconds),
	})
	return b, nil
}

func seconds(s *float64) *time.Duration {
	if s == nil {
		return nil
	}
	d := time.Duration(*s * float64(time.Second))
	return &d
}
