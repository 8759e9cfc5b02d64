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

// Names of claims.
const (
	visitsRight  = "every redirect right"
	visitsServed = "no failed redirect"
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
			Name: visitsRight, Text: "Every redirect leads to the URL that its link was created for.", Unit: "wrong answers",
			Kind: report.Correctness, Judge: judgeAnswers,
		},
		{
			Name: visitsServed, Text: "No redirect fails at the steady rate.", Unit: "failed redirects",
			Kind: report.Availability, Judge: judgeFailures,
		},
		timed("redirect p99", "ms", measure.LatencyText("redirects", "a redirect without a look-up", rate), judgeP99),
	}, accounts()...)
}

func runMix(t *experiment.T, r *record) {
	s := start(t, r, plan{rate: mixRate, lasts: 4 * time.Second, each: time.Second})
	defer s.readBack()
	m := &mixture{run: s, creations: loadtest.NewRecorder(), visits: loadtest.NewVisits(s.server.Client)}
	defer func() { r.served, r.visited = m.creations.Figures(), m.visits.Findings() }()
	t.Phase(0.1, "creating the links to visit")
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

// judgeAnswers judges the number of wrong answers at all rates.
func judgeAnswers(r *record) experiment.Verdict {
	found := r.visited
	if r.steady == nil || found.Checked == 0 {
		return experiment.Verdict{}
	}
	return r.steady.Complete(experiment.None(found.Lost+found.Wrong,
		"at all rates, %d requests were answered: %d answers led to no link and %d to a wrong URL", found.Checked, found.Lost, found.Wrong))
}

// judgeFailures judges the number of redirects that failed at the steady rate. It leaves out wrong answers, which
// judgeAnswers judges.
func judgeFailures(r *record) experiment.Verdict {
	if r.steady == nil || r.steady.All().Sent+r.steady.All().Unsent == 0 {
		return experiment.Verdict{}
	}
	reads, wrong := r.steady.All(), r.atSteady.Lost+r.atSteady.Wrong
	v := experiment.None(reads.Failed()-wrong, "%d requests were due; %d were refused, %d got no valid answer and %d were not sent",
		reads.Sent+reads.Unsent, reads.Refused-wrong, reads.Unknown, reads.Unsent)
	if reads.Acknowledged == 0 { // even on a busy machine, some redirects succeed, so the service is at fault
		v = v.Certain()
	}
	return r.steady.Complete(v)
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
