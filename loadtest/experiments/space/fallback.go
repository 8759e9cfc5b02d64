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
	"keypool/loadtest/measure"
)

// plan is how large the experiment is. A space of three characters is filled in a second.
type plan struct {
	length    int
	tolerance float64 // a share of the predicted attempts
	fewest    int     // creations at a level, at least
}

func planOf(t *experiment.T) plan {
	switch {
	case t.Full:
		return plan{length: 4, tolerance: 0.01, fewest: 10_000}
	case t.Scale < 1:
		return plan{length: 3, tolerance: 0.1, fewest: 100}
	}
	return plan{length: 3, tolerance: 0.03, fewest: 500}
}

const (
	// sigmas is how many standard deviations of the observed mean make the tolerance: a sound
	// service exceeds them once in a thousand times.
	sigmas = 3.3
	// width is how many clients make links, each its next one as soon as it has the last. On a
	// slow machine the load is lower.
	width = 32
)

// levels are the shares of codes in use that the claims are about, in ascending order.
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
	filled   int64    // codes in use at first
	offered  []string // the codes that the store was offered
	made     int64    // links
	reported float64  // attempts per creation, as the server counts them
	p99      time.Duration
}

func runFallback(t *experiment.T, rec *record) {
	rec.plan = planOf(t)
	c := newCrowd(t, rec.plan.length)
	for i, share := range levels() {
		done := float64(i) / float64(len(levels()))
		t.Phase(done, "f = %g, FALLBACK=ledger", share)
		l := level{share: share, ledger: rec.measure(c, share, rec.plan.fewest, "FALLBACK=ledger")}
		t.Phase(done, "f = %g, FALLBACK=random", share)
		l.random = rec.measure(c, share, rec.plan.creations(share), "FALLBACK=random")
		rec.levels = append(rec.levels, l)
	}
}

// serve starts a server that has only its fallback: nothing listens at its REDIS_URL. The first
// link, which is made here, waits until the server has noticed. A busy machine may refuse it at first.
func (c *crowd) serve(setting string) *lab.Program {
	server := lab.Server(c, append(c.settings, "REDIS_URL=redis://127.0.0.1:1", "KGS_WORKER=false", "KGS_BATCH_MAX=1000", setting)...)
	server.Start()
	lab.Wait(c, lab.Patience, "the first link is made", func() bool {
		return server.Client.Create(c.Context(), "https://loadtest.example/first").State == loadtest.Acknowledged
	})
	c.exec(`DELETE FROM offered`)
	return server
}

// measure makes links with share of the codes in use, and reads them back, also when the run is
// interrupted meanwhile.
func (r *record) measure(c *crowd, share float64, creations int, setting string) measured {
	m := measured{filled: int64(math.Round(share * float64(sizeOf(c.length))))}
	c.fill(m.filled)
	server := c.serve(setting)
	defer server.Kill()
	attempts, creationsBefore := server.Histogram("kgs_fallback_attempts")
	load := lab.Traffic(c, server)
	defer func() {
		links, _ := measure.ReadBack(c, server, nil, load)
		r.links = sources.Sum(r.links, *links)
	}()
	took := make([]time.Duration, creations)
	c.Must(together(creations, width, func(n int) error {
		start := time.Now()
		_, err := load.TryOne(c.Context())
		took[n] = time.Since(start)
		return cmp.Or(err, c.Context().Err())
	}))
	slices.Sort(took)
	m.p99 = took[99*(creations-1)/100]
	m.made = loadtest.Count(load.Entries()).Acknowledged
	m.offered = c.offered()
	attemptsAfter, creationsAfter := server.Histogram("kgs_fallback_attempts")
	m.reported = (attemptsAfter - attempts) / (creationsAfter - creationsBefore)
	return m
}

// attempts is how many there were per creation, by the count of the store.
func (m *measured) attempts() float64 { return float64(len(m.offered)) / float64(m.made) }

// predicted is the mean number of attempts where each draw finds any code with the same chance:
// 1/(1-f), with the f of each creation. One link was made before.
func (m *measured) predicted(size int64) float64 {
	sum := 0.0
	for i := range m.made {
		sum += float64(size) / float64(size-max(m.filled, i+1))
	}
	return sum / float64(m.made)
}
