package space

import (
	"cmp"
	"math"
	"slices"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"

	"golang.org/x/sync/errgroup"
)

// plan is how large the experiment is. A space of three characters is filled in a second.
type plan struct {
	length    int
	tolerance float64 // a share of the predicted attempts
	fewest    int     // creations at a level, at least
	ledger    int     // creations at each level with FALLBACK=ledger
}

func planOf(t *experiment.T) plan {
	switch {
	case t.Full:
		return plan{length: 4, tolerance: 0.01, fewest: 10_000, ledger: 10_000}
	case t.Scale < 1:
		return plan{length: 3, tolerance: 0.1, fewest: 100, ledger: 50}
	}
	return plan{length: 3, tolerance: 0.03, fewest: 500, ledger: 300}
}

const (
	// sigmas is how many standard deviations of the observed mean make the tolerance: a sound
	// service exceeds them once in a thousand times.
	sigmas = 3.3
	// width is how many clients make links, each its next one as soon as it has the last. On a
	// slow machine the load is lower.
	width = 32
)

// levels are the shares of codes in use that the claims are about.
func levels() []float64 { return []float64{0.0002, 0.25, 0.5, 0.71, 0.8, 0.9, 0.946} }

// creations is how many it takes until the mean of their attempts, each a geometric variable
// of relative deviation sqrt(f), is as exact as the tolerance asks for.
func (p plan) creations(share float64) int {
	return max(p.fewest, int(math.Ceil(share*sigmas*sigmas/(p.tolerance*p.tolerance))))
}

// record is what the experiment observes.
type record struct {
	plan   plan
	levels []level
	links  *loadtest.Verdict // on the links of all levels
}

// level is what was measured with one share of the codes in use.
type level struct {
	share          float64
	random, ledger measured
}

// measured is what became of the creations of one level and one fallback.
type measured struct {
	filled   int64           // codes in use at first, of which
	leaving  int64           // up to so many went, one for each link that was made
	offered  []string        // the codes that the store was offered
	made     int64           // links
	reported float64         // attempts per creation, as the server counts them
	commit   time.Duration   // mean of a commit, as the server measures it
	took     []time.Duration // of each creation, in ascending order
}

// run is the experiment in progress.
type run struct {
	*experiment.T
	plan
	record *record
	crowd  *crowd
}

func runFallback(t *experiment.T, rec *record) {
	rec.plan = planOf(t)
	r := &run{T: t, plan: rec.plan, record: rec, crowd: newCrowd(t, rec.plan.length)}
	for i, share := range levels() {
		done := float64(i) / float64(len(levels()))
		t.Phase(done, "f = %g, FALLBACK=ledger", share)
		l := level{share: share, ledger: r.measure(share, r.ledger, "FALLBACK=ledger")}
		t.Phase(done, "f = %g, FALLBACK=random", share)
		l.random = r.measure(share, r.creations(share), "FALLBACK=random")
		rec.levels = append(rec.levels, l)
	}
}

// serve fills the space to share and starts a server that has only its fallback: nothing listens
// at its REDIS_URL. The first link, which is made here, waits until the server has noticed.
func (r *run) serve(share float64, leaving int, setting string) *lab.Program {
	r.crowd.fill(int64(math.Round(share*float64(sizeOf(r.length)))), int64(leaving)+1)
	server := lab.Server(r, append(r.crowd.settings(), "REDIS_URL=redis://127.0.0.1:1", "KGS_WORKER=false", "KGS_BATCH_MAX=1000", setting)...)
	server.Start()
	if first := server.Client.Create(r.Context(), "https://loadtest.example/first"); first.State != loadtest.Acknowledged {
		r.Fatalf("the first link is %s: %s", first.State, first.Detail)
	}
	return server
}

// measure makes links with share of the codes in use, and reads them back, also when the run is
// interrupted meanwhile.
func (r *run) measure(share float64, creations int, setting string) (m measured) {
	server := r.serve(share, creations, setting)
	defer server.Kill()
	m.filled, m.leaving = r.crowd.filled, r.crowd.leaving
	before := r.crowd.counts(server)
	load := lab.Traffic(r, server)
	defer func() {
		server.Kill() // its cache must not answer for the store
		server.Launch()
		r.record.links = sources.Sum(r.record.links, lab.Check(r, server, nil, load))
	}()
	m.took = make([]time.Duration, creations)
	var clients errgroup.Group
	clients.SetLimit(width)
	for n := range m.took {
		clients.Go(func() error {
			start := time.Now()
			_, err := load.TryOne(r.Context())
			m.took[n] = time.Since(start)
			return cmp.Or(err, r.Context().Err())
		})
	}
	r.Must(clients.Wait())
	slices.Sort(m.took)
	m.made = loadtest.Count(load.Entries()).Acknowledged
	after := r.crowd.counts(server)
	m.offered = slices.Clone(after.offered[len(before.offered):])
	m.reported = ratio(after.attempts-before.attempts, after.creations-before.creations)
	m.commit = time.Duration(ratio(after.seconds-before.seconds, after.commits-before.commits) * float64(time.Second))
	return m
}

// latency is a quantile of how long creations took, in milliseconds.
func (m *measured) latency(quantile float64) float64 {
	if len(m.took) == 0 {
		return math.NaN()
	}
	return milliseconds(m.took[int(quantile*float64(len(m.took)-1))])
}

// attempts is how many there were per creation, by the count of the store.
func (m *measured) attempts() float64 {
	return ratio(float64(len(m.offered)), float64(m.made))
}

// predicted is the mean number of attempts where each draw finds any code with the same chance:
// 1/(1-f), with the f of each creation.
func (m *measured) predicted(size int64) float64 {
	made := max(1, m.made)
	sum := 0.0
	for i := range made {
		used := m.filled + max(0, i+1-m.leaving) // one link was made before
		sum += float64(size) / float64(size-used)
	}
	return sum / float64(made)
}

// ratio is 0 of nothing.
func ratio(of, to float64) float64 {
	if to == 0 {
		return 0
	}
	return of / to
}

// attempts99 is the number of attempts that 99 of 100 creations do not exceed.
func attempts99(share float64) float64 {
	return max(1, math.Ceil(math.Log(0.01)/math.Log(share)))
}
