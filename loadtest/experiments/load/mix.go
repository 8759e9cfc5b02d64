package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

const (
	mixRate      = 2000.0                 // redirects per second
	mixRatio     = 100                    // redirects for each creation
	beforeVisits = 2 * time.Second        // duration of the creations before the first visit
	refreshEvery = 200 * time.Millisecond // interval at which new links are added to the population
	zipfExponent = 1.1                    // the most popular tenth of the links gets about four fifths of the visits
)

// mix is the experiment load/mix.
func mix() *experiment.Experiment {
	return experiment.Define(experiment.Definition[record]{
		Name: "load/mix", Title: "A hundred redirects for each creation",
		Summary: fmt.Sprintf("Most requests to a shortener are redirects. In this experiment, there are %d visits for each link that is created. A few links get most "+
			"of the visits (Zipf distribution, s = %.1f), and the newest links are the most popular. "+
			"The rate is first steady (%.0f redirects per second at scale 1, unless the flag --rate sets another rate). "+
			"It then rises until the service no longer keeps up. The target of every redirect is checked.", mixRatio, zipfExponent, mixRate),
		Suites: []experiment.Suite{experiment.Nightly}, Alone: true, Anywhere: true,
		Run: runMix, Claims: mixClaims(mixRate), Controls: measure.LinkControls(),
		Show: func(r *record, e *report.Experiment) { r.show(e, "redirects", mixClaims(r.rate)) },
	})
}

// mixClaims returns the claims of load/mix at the given rate.
func mixClaims(rate float64) []claim {
	return append([]claim{
		{
			Name: "every redirect right", Text: "Every redirect leads to the URL that its link was created for.", Unit: "failed redirects",
			Kind: report.Correctness, Judge: judgeVisits,
		},
		timed("redirect p99", "ms", measure.LatencyText("redirects", "a redirect without a look-up", rate), judgeP99),
	}, accounts()...)
}

func runMix(t *experiment.T, r *record) {
	s := start(t, r, "load/mix", plan{rate: mixRate, lasts: 4 * time.Second, each: time.Second})
	defer s.readBack()
	m := &mixture{run: s, creations: loadtest.NewRecorder(), visits: loadtest.NewVisits(s.server.Client)}
	defer func() { r.served, r.visited = m.creations.Figures(), m.visits.Findings() }()
	s.pulse.Enter("creating the links to visit")
	s.pulse.Follow(m.creations)
	s.load.Run(t.Context(), min(createRate, s.rate), beforeVisits, m.creations)
	if m.links = populate(s); m.links.size() == 0 {
		return // the claim about creations then reports the failures
	}
	err := s.measureSteady("redirects", m.together, measure.BareRedirect(t))
	r.atSteady = m.visits.Findings()
	t.Must(err)
	s.climb(m.together)
}

// mixture is a load of redirects and creations.
type mixture struct {
	*run
	creations *loadtest.Recorder // creations at rates that the service must keep up with
	visits    *loadtest.Visits
	links     *population
}

// together visits links at the given rate and creates links at a hundredth of this rate.
func (m *mixture) together(ctx context.Context, rate float64, d time.Duration, r *loadtest.Recorder) {
	creations := m.creations
	if rate > m.rate {
		creations = loadtest.NewRecorder() // creations above the steady rate may fail
	}
	var created sync.WaitGroup
	created.Go(func() { m.load.Run(ctx, rate/mixRatio, d, creations) })
	loadtest.Pace(ctx, loadtest.Schedule{Rate: rate, Duration: d}, 0, r, func(ctx context.Context) loadtest.State {
		return m.visits.Visit(ctx, m.links.pick())
	})
	created.Wait()
}

// judgeVisits judges the number of wrong answers at all rates plus the number of other failures at the steady
// rate. The failures of the steady load include its wrong answers, so judgeVisits subtracts these.
func judgeVisits(r *record) experiment.Verdict {
	if r.steady == nil {
		return experiment.Verdict{}
	}
	reads, found := r.steady.All(), r.visited
	if reads.Sent+reads.Unsent == 0 {
		return experiment.Verdict{}
	}
	others := reads.Failed() - r.atSteady.Lost - r.atSteady.Wrong
	return r.steady.Complete(experiment.None(found.Lost+found.Wrong+others,
		"at all rates, %d requests were answered: %d answers led to no link and %d to a wrong URL; at the steady rate, %d requests were due, and %d of them failed in another way",
		found.Checked, found.Lost, found.Wrong, reads.Sent+reads.Unsent, others))
}

// population holds the links that visitors follow. It is safe for concurrent use.
type population struct {
	links atomic.Pointer[[]loadtest.Entry] // starts with the newest link

	mu   sync.Mutex
	zipf *rand.Zipf // protected by mu
}

// populate returns a population of the links that the run has created. New links are added until the run ends.
func populate(s *run) *population {
	p := &population{}
	p.take(s.load)
	source := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the popularity of links is not a secret
	p.zipf = rand.NewZipf(source, zipfExponent, 1, uint64(max(p.size(), 1)-1))
	lab.Watch(s, refreshEvery, func(context.Context) (struct{}, error) { p.take(s.load); return struct{}{}, nil })
	return p
}

// take replaces the links of the population with all acknowledged links of the load.
func (p *population) take(load *lab.Load) {
	entries := load.Entries()
	links := make([]loadtest.Entry, 0, len(entries))
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].State == loadtest.Acknowledged {
			links = append(links, entries[i])
		}
	}
	p.links.Store(&links)
}

func (p *population) size() int { return len(*p.links.Load()) }

// pick returns the link that the next visitor follows.
func (p *population) pick() loadtest.Entry {
	p.mu.Lock()
	rank := p.zipf.Uint64()
	p.mu.Unlock()
	return (*p.links.Load())[rank] // links are only added, so rank is always below their number
}
