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
	mixRatio     = 100             // redirects to one creation
	mixRate      = 2000.0          // redirects per second
	mixLinking   = 2 * time.Second // of creations, before
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
	Part
	run     *Run
	rate    float64 // redirects per second
	lasts   time.Duration
	each    time.Duration
	stand   *stand
	pulse   *pulse
	traffic *Traffic
	visits  *loadtest.Visits
	links   *population
	steady  *steady
	found   loadtest.Findings // of the visits at the steady rate
	steps   []step
}

func mix(ctx context.Context, run *Run) (_ report.Scenario, err error) {
	m := newMixture(run)
	m.pulse = run.pulse(ctx, "mix", 6*time.Second+2*m.lasts+climbSteps*m.each/2)
	defer m.pulse.stop()
	m.pulse.enter("starting")
	if m.stand, err = run.stand(ctx); err != nil {
		return m.Scenario, err
	}
	defer func() { err = errors.Join(err, m.stand.close()) }()
	if m.traffic, err = NewTraffic(m.stand.target, loadtest.NewRecorder()); err != nil {
		return m.Scenario, err
	}
	defer m.traffic.Close()
	m.Settings = m.stand.settings()
	err = m.load(ctx)
	err = errors.Join(err, m.judgeAll(ctx))
	return m.Scenario, err
}

func newMixture(run *Run) *mixture {
	m := &mixture{run: run, rate: mixRate, lasts: run.Duration, each: mixStep}
	if run.Rate != 0 {
		m.rate = run.Rate
	}
	if m.lasts == 0 {
		m.lasts = mixSteady
		if run.Full {
			m.lasts, m.each = mixFull, mixStepFull
		}
	}
	m.each = min(m.each, m.lasts)
	m.Summary = fmt.Sprintf("Most of what a shortener does is to redirect: %d visits to one new link, as people visit, a few links "+
		"very often and most of them hardly ever (Zipf, s = %.1f), the newest most. First at a steady %.0f redirects a second, then "+
		"faster and faster. Where each one leads is checked.", mixRatio, zipfExponent, m.rate)
	m.Claim(claimVisits, "Every redirect led where its link was made to lead.", "redirects")
	m.claimLatency(claimVisitP99, "redirects", "a bare redirect", m.rate)
	m.claimSteadyAccounts()
	return m
}

func (m *mixture) load(ctx context.Context) error {
	m.pulse.enter("making the links to visit")
	m.pulse.watch(m.traffic.recorder, m.stand.admin)
	if err := m.traffic.run(ctx, min(promisedRate, m.rate), mixLinking); err != nil {
		return err
	}
	m.visits = loadtest.NewVisits(m.traffic.client)
	m.links = populate(ctx, m.traffic.journal)
	defer m.links.refresh.stop()
	if m.links.size() == 0 {
		return ctx.Err() // no link could be made, as the accounts will say
	}
	bare := redirects()
	defer bare.close()
	m.steady = &steady{
		what: "redirects", rate: m.rate, lasts: m.lasts, load: m.together, beside: []*beside{bare}, pulse: m.pulse, stand: m.stand,
	}
	err := m.steady.run(ctx)
	m.found = m.visits.Findings()
	if err != nil {
		return err
	}
	m.steps, err = m.run.climb(ctx, m.steady, m.each)
	return err
}

// together visits links at a rate and makes new ones at a hundredth of it. At rates above
// the steady one a creation may fail, so the recorder of the accounts is spared these.
func (m *mixture) together(ctx context.Context, rate float64, duration time.Duration, r *loadtest.Recorder) error {
	creations := m.traffic.recorder
	if rate > m.rate {
		creations = loadtest.NewRecorder()
	}
	made := make(chan error, 1)
	go func() { made <- m.traffic.with(ctx, rate/mixRatio, duration, creations) }()
	loadtest.Pace(ctx, loadtest.Schedule{Rate: rate, Duration: duration}, 0, r, func(ctx context.Context) loadtest.State {
		return m.visits.Visit(ctx, m.links.pick())
	})
	return <-made
}

func (m *mixture) judgeAll(ctx context.Context) error {
	m.pulse.enter("reading every link back")
	if m.steady != nil && m.steady.total != nil {
		m.judgeVisits(m.steady.all())
	}
	after, cancel := afterwards(ctx)
	defer cancel()
	if err := m.stand.forget(after); err != nil {
		return err
	}
	verdict, err := m.traffic.Judge(after)
	m.judgeServed(m.traffic.recorder.Figures())
	m.JudgeLinks(verdict)
	m.tellFailures(m.traffic.Entries())
	if len(m.steps) > 0 {
		m.Charts = stepCharts("redirects", m.steps)
		m.Tables = []report.Table{stepTable("Redirects by rate, each with a hundredth of it in creations", m.steps)}
		m.Notes = append(m.Notes, kneeNote(m.steps))
	}
	return err
}

// judgeVisits counts wrong answers at all rates, and what failed otherwise where the service
// keeps up.
func (m *mixture) judgeVisits(reads loadtest.Figures) {
	if reads.Sent+reads.Unsent == 0 {
		return
	}
	found := m.visits.Findings()
	others := reads.Failed() - m.found.Lost - m.found.Wrong // a wrong answer is a failed visit too
	bad := found.Lost + found.Wrong + others
	m.Figures(claimVisits, 0, float64(bad))
	m.Judge(claimVisits, bad == 0,
		"of %d redirects at all rates %d led nowhere and %d elsewhere; of %d at the steady rate %d others failed or were not sent",
		found.Checked, found.Lost, found.Wrong, reads.Sent+reads.Unsent, others)
	m.unfinished(claimVisits, m.steady)
	m.Notes = append(m.Notes, found.Reports...)
	m.judgeLatency(claimVisitP99, m.steady)
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
