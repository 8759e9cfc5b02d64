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
	mixRate      = 2000.0 // redirects per second
	mixRatio     = 100    // redirects for one creation
	beforeVisits = 2 * time.Second
	refreshEvery = 200 * time.Millisecond // a new link waits so long for its first visit
	zipfExponent = 1.1                    // the most popular tenth of the links gets about four fifths of the visits
)

// mix is the experiment load/mix.
func mix() *experiment.Experiment {
	return experiment.Define(experiment.Definition[record]{
		Name: "load/mix", Title: "A hundred visits to one new link",
		Summary: fmt.Sprintf("Most requests to a shortener are redirects. Here %d visits follow links for each link that is created. A few links get most "+
			"of the visits (Zipf, s = %.1f), and the newest links are the most popular. The rate is first a steady %.0f redirects per second and then "+
			"rises until the service no longer keeps up. The target of every redirect is checked.", mixRatio, zipfExponent, mixRate),
		Suites: []experiment.Suite{experiment.Nightly}, Alone: true, Anywhere: true,
		Run: runMix, Claims: mixClaims(mixRate), Controls: controls(),
		Show: func(r *record, e *report.Experiment) { r.show(e, "redirects", mixClaims(r.rate)) },
	})
}

func mixClaims(rate float64) []claim {
	return append([]claim{
		{
			Name: "every redirect right", Text: "Every redirect leads where its link was made to lead.", Unit: "redirects",
			Kind: report.Correctness, Judge: judgeVisits,
		},
		timed("redirect p99", "ms", measure.LatencyText("redirects", "a bare redirect", rate), judgeP99),
	}, accounts()...)
}

func runMix(t *experiment.T, r *record) {
	s := start(t, r, "load/mix", plan{rate: mixRate, lasts: 4 * time.Second, each: time.Second})
	defer s.readBack()
	m := &mixture{run: s, creations: loadtest.NewRecorder(), visits: loadtest.NewVisits(s.server.Client)}
	defer func() { r.served, r.visited = m.creations.Figures(), m.visits.Findings() }()
	s.pulse.Enter("creating the links to visit")
	s.pulse.Follow(m.creations)
	t.Must(s.load.Run(t.Context(), min(createRate, s.rate), beforeVisits, m.creations))
	if m.links = populate(s); m.links.size() == 0 {
		return // the claim on creations says why
	}
	err := s.measureSteady("redirects", m.together, measure.BareRedirect(t))
	r.atSteady = m.visits.Findings()
	t.Must(err)
	s.climb(m.together)
}

// mixture is a load of redirects and creations.
type mixture struct {
	*run
	creations *loadtest.Recorder // at rates that the service must keep up with
	visits    *loadtest.Visits
	links     *population
}

// together visits links at a rate and creates links at a hundredth of it.
func (m *mixture) together(ctx context.Context, rate float64, d time.Duration, r *loadtest.Recorder) error {
	creations := m.creations
	if rate > m.rate {
		creations = loadtest.NewRecorder() // these may fail
	}
	created := make(chan error, 1)
	go func() { created <- m.load.Run(ctx, rate/mixRatio, d, creations) }()
	loadtest.Pace(ctx, loadtest.Schedule{Rate: rate, Duration: d}, 0, r, func(ctx context.Context) loadtest.State {
		return m.visits.Visit(ctx, m.links.pick())
	})
	return <-created
}

// judgeVisits counts wrong answers at all rates, and other failures at the steady rate. A wrong
// answer is a failed visit too and counts once.
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
		"of %d redirects at all rates %d led nowhere and %d elsewhere; of %d at the steady rate %d others failed or were not sent",
		found.Checked, found.Lost, found.Wrong, reads.Sent+reads.Unsent, others))
}

// population is the set of links that visitors follow. It may be used concurrently.
type population struct {
	links atomic.Pointer[[]loadtest.Entry] // the newest first

	mu   sync.Mutex
	zipf *rand.Zipf // not for concurrent use
}

// populate takes the links that the run has created, and goes on to take new ones until the
// run is over.
func populate(s *run) *population {
	p := &population{}
	p.take(s.load)
	source := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // popularity is not a secret
	p.zipf = rand.NewZipf(source, zipfExponent, 1, uint64(max(p.size(), 1)-1))
	lab.Watch(s, refreshEvery, func(context.Context) (struct{}, error) { p.take(s.load); return struct{}{}, nil })
	return p
}

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
	return (*p.links.Load())[rank] // links are only added, so there are at least as many as at first
}
