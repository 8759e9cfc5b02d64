package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/report"
)

// What is read and made, unless it is told otherwise.
const (
	mixRatio     = 100    // redirects to one creation
	mixRate      = 2000.0 // redirects per second
	mixLinks     = 2000   // that exist before
	mixSteady    = 4 * time.Second
	mixFull      = time.Minute
	mixStep      = time.Second
	mixStepFull  = 10 * time.Second
	mixRefresh   = 200 * time.Millisecond // until a new link is visited too
	zipfExponent = 1.1                    // the most popular tenth gets some four fifths of the visits
)

// The claims of the scenario besides the accounts.
const (
	claimVisits   = "every redirect right"
	claimVisitP99 = "redirect p99"
)

// mixture is the scenario "mix" under way.
type mixture struct {
	part
	run     *Run
	rate    float64 // redirects per second
	steady  time.Duration
	each    time.Duration
	stand   *stand
	pulse   *pulse
	traffic *traffic
	beside  *beside
	visits  *loadtest.Visits
	links   *population
	reads   *loadtest.Recorder // of the steady load
	held    float64            // seconds of steady load until the last outcome
	steps   []step
}

func mix(ctx context.Context, run *Run) (_ report.Scenario, err error) {
	m := newMixture(run)
	m.pulse = run.pulse(ctx, "mix", 4*time.Second+2*m.steady+climbSteps*m.each/2)
	defer m.pulse.stop()
	m.pulse.enter("starting")
	if m.stand, err = run.stand(ctx); err != nil {
		return m.Scenario, err
	}
	defer func() { err = errors.Join(err, m.stand.close()) }()
	if m.traffic, err = newTraffic(m.stand.target, loadtest.NewRecorder()); err != nil {
		return m.Scenario, err
	}
	defer m.traffic.close()
	m.beside = redirects()
	defer m.beside.close()
	m.Settings = m.stand.settings()
	err = m.load(ctx)
	return m.Scenario, errors.Join(err, m.judgeAll(ctx))
}

func newMixture(run *Run) *mixture {
	m := &mixture{run: run, rate: mixRate, steady: run.Duration, each: mixStep, reads: loadtest.NewRecorder()}
	if run.Rate != 0 && run.Target != "" { // it is the deployment's visitors who set the rate
		m.rate = run.Rate * mixRatio
	}
	if m.steady == 0 {
		m.steady = mixSteady
		if run.Full {
			m.steady, m.each = mixFull, mixStepFull
		}
	}
	m.each = min(m.each, m.steady)
	m.Summary = fmt.Sprintf("Most of what a shortener does is to redirect: %d visits to one new link, as people visit, a few links "+
		"very often and most of them hardly ever (Zipf, s = %.1f), the newest most. First at a steady %.0f redirects a second, then "+
		"faster and faster. Where each one leads is checked.", mixRatio, zipfExponent, m.rate)
	m.claim(claimVisits, "Every redirect led where its link was made to lead.", "redirects")
	m.claim(claimVisitP99, fmt.Sprintf("At %.0f redirects a second, 99 of 100 take at most %.0f ms from when they were due, or, on a machine that is "+
		"busy with other things, at most %.1f times as long as a bare redirect at the same rate.", m.rate, milliseconds(latencyBound), besideFactor), "ms")
	m.claimAccounts()
	return m
}

func (m *mixture) load(ctx context.Context) error {
	m.pulse.enter("making the links to visit")
	m.pulse.watch(m.traffic.recorder, m.stand.admin)
	if err := m.traffic.run(ctx, promisedRate, time.Duration(mixLinks/promisedRate*float64(time.Second))); err != nil {
		return err
	}
	m.visits = loadtest.NewVisits(m.traffic.client)
	m.links = populate(ctx, m.traffic.journal)
	defer m.links.refresh.stop()
	if m.links.size() == 0 {
		return ctx.Err() // no link could be made, as the accounts will say
	}
	if err := m.keep(ctx); err != nil {
		return err
	}
	first := step{Offered: m.rate, Seconds: m.held, Figures: m.reads.Figures()}
	steps, err := climb(ctx, m.rate*climbFactor, m.each, m.pulse, m.step)
	m.steps = append([]step{first}, steps...)
	return err
}

// keep holds the steady load, in turn with what it is measured beside.
func (m *mixture) keep(ctx context.Context) error {
	measured := m.beside.recorder
	m.beside.recorder = loadtest.NewRecorder()
	m.beside.run(ctx, m.rate, warmUp)
	m.beside.recorder = measured
	if err := m.together(ctx, m.rate, warmUp, loadtest.NewRecorder()); err != nil {
		return err
	}
	for range steadyRounds {
		m.pulse.enter(fmt.Sprintf("steady %.0f redirects/s", m.rate))
		m.pulse.watch(m.reads, m.stand.admin)
		started := time.Now()
		if err := m.together(ctx, m.rate, m.steady/steadyRounds, m.reads); err != nil {
			return err
		}
		m.held += time.Since(started).Seconds()
		m.pulse.enter("the same rate of " + m.beside.name)
		m.pulse.watch(m.beside.recorder, m.stand.admin)
		m.beside.run(ctx, m.rate, m.steady/steadyRounds/2)
	}
	return nil
}

// step is a [measure] of redirects, with the creations that belong to them.
func (m *mixture) step(ctx context.Context, rate float64, duration time.Duration) (step, error) {
	r := loadtest.NewRecorder()
	m.pulse.watch(r, m.stand.admin)
	started := time.Now()
	err := m.together(ctx, rate, duration, r)
	return step{Offered: rate, Seconds: time.Since(started).Seconds(), Figures: r.Figures()}, err
}

// together visits links at a rate and makes new ones at a hundredth of it.
func (m *mixture) together(ctx context.Context, rate float64, duration time.Duration, r *loadtest.Recorder) error {
	made := make(chan error, 1)
	go func() { made <- m.traffic.run(ctx, rate/mixRatio, duration) }()
	loadtest.Pace(ctx, loadtest.Schedule{Rate: rate, Duration: duration}, 0, r, func(ctx context.Context) loadtest.State {
		return m.visits.Visit(ctx, m.links.pick())
	})
	return <-made
}

func (m *mixture) judgeAll(ctx context.Context) error {
	m.pulse.enter("reading every link back")
	if m.visits != nil && m.reads.Figures().Sent > 0 {
		m.judgeVisits()
	}
	after, cancel := afterwards(ctx)
	defer cancel()
	if err := m.stand.forget(after); err != nil {
		return err
	}
	verdict, err := m.traffic.judge(after)
	m.judgeAccounts(verdict)
	if len(m.steps) > 0 {
		m.Charts = stepCharts("redirects", m.steps)
		m.Tables = []report.Table{stepTable("Redirects by rate, each with a hundredth of it in creations", m.steps)}
		m.Notes = append(m.Notes, kneeNote(m.steps), fmt.Sprintf("In turn with the steady load, %s at the same rate: %v.",
			m.beside.name, m.beside.recorder.Figures().Latency))
	}
	return err
}

// judgeVisits counts wrong answers at all rates, and failures where the service keeps up.
func (m *mixture) judgeVisits() {
	found, reads := m.visits.Findings(), m.reads.Figures()
	wrong := found.Lost + found.Wrong
	m.figures(claimVisits, 0, float64(wrong+reads.Failed()))
	m.judge(claimVisits, wrong+reads.Failed() == 0,
		"of %d redirects at all rates %d led nowhere and %d elsewhere; of %d at the steady rate %d failed or were not sent",
		found.Checked, found.Lost, found.Wrong, reads.Sent+reads.Unsent, reads.Failed())
	m.Notes = append(m.Notes, found.Reports...)
	m.judgeLatency(claimVisitP99, reads.Latency, m.beside)
}

// population are the links that are there to be visited.
type population struct {
	refresh *sampler[int]
	links   atomic.Pointer[[]loadtest.Entry] // the newest first

	mu   sync.Mutex
	zipf *rand.Zipf // not for concurrent use
}

// populate takes what journal has, and goes on to take what comes.
func populate(ctx context.Context, journal *loadtest.Journal) *population {
	p := &population{}
	p.take(journal)
	source := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // popularity is no secret
	p.zipf = rand.NewZipf(source, zipfExponent, 1, uint64(max(p.size(), 1)-1))
	p.refresh = sample(ctx, mixRefresh, func(context.Context) (int, error) { p.take(journal); return p.size(), nil })
	return p
}

func (p *population) take(journal *loadtest.Journal) {
	entries := journal.Entries()
	links := make([]loadtest.Entry, 0, len(entries))
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].State == loadtest.Acknowledged {
			links = append(links, entries[i])
		}
	}
	p.links.Store(&links)
}

func (p *population) size() int { return len(*p.links.Load()) }

// pick is the link that the next visitor follows.
func (p *population) pick() loadtest.Entry {
	p.mu.Lock()
	rank := p.zipf.Uint64()
	p.mu.Unlock()
	return (*p.links.Load())[rank] // there are never fewer than at first
}
