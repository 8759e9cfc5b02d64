package space

import (
	"math"
	"slices"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
)

// plan holds the sizes of the experiment. A space of codes with three characters is filled in a second.
type plan struct {
	length    int
	tolerance float64 // allowed difference, as a share of the predicted attempts
	fewest    int     // least number of creations at a level
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
	// sigmas is the tolerance in standard deviations of the observed mean. A service without faults
	// exceeds this tolerance in one of a thousand measurements.
	sigmas = 3.3
	// width is the number of clients that make links. Each client sends its next creation as soon as
	// its last creation is answered, so the load is lower on a slow machine.
	width = 32
)

// levels returns the levels of the experiment, in ascending order. A level is the share of all codes that is in use.
func levels() []float64 { return []float64{0.0002, 0.25, 0.5, 0.71, 0.8, 0.9, 0.946} }

// creations returns how many creations are needed so that the random error of the mean number of
// attempts stays within the tolerance. The attempts of a creation are a geometric variable. Its
// standard deviation is sqrt(share) times its mean.
func (p plan) creations(share float64) int {
	return max(p.fewest, int(math.Ceil(share*sigmas*sigmas/(p.tolerance*p.tolerance))))
}

// record holds the observations of the experiment.
type record struct {
	plan   plan
	levels []level
	links  *loadtest.Verdict // verdict on the links of all levels
}

// level holds the measurements that were made while the given share of all codes was in use.
type level struct {
	share          float64
	random, ledger measured
}

// measured holds the results of the creations at one level with one fallback.
type measured struct {
	filled   int64    // codes in use before the creations
	offered  []string // codes that the store tried to insert
	wasted   int      // how many of these codes were for creations that failed
	made     int64    // creations that succeeded
	failed   int64    // creations that failed; after a timeout, the store may still insert the link of such a creation
	reported float64  // attempts per creation that succeeded, as counted by the server
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

// serve starts a server that can use only its fallback, because nothing listens at its REDIS_URL. It then
// makes the first link, for which the server must detect that Redis is down. On a busy machine, the server may
// refuse the first creations, so serve repeats them.
func (c *crowd) serve(setting string) *lab.Program {
	server := lab.Server(c, append(c.settings, "REDIS_URL=redis://127.0.0.1:1", "KGS_WORKER=false", "KGS_BATCH_MAX=1000", setting)...)
	server.Start()
	lab.Wait(c, lab.Patience, "the first link is made", func() bool {
		return server.Client.Create(c.Context(), "https://loadtest.example/first").State == loadtest.Acknowledged
	})
	c.exec(`DELETE FROM offered`)
	return server
}

// census returns a census of the database.
func (c *crowd) census() loadtest.Census {
	return lab.Census(strings.TrimPrefix(c.settings[0], "DATABASE_URL="))
}

// measure makes links while the given share of all codes is in use. It reads the links back even if the
// run is interrupted meanwhile.
func (r *record) measure(c *crowd, share float64, creations int, setting string) measured {
	m := measured{filled: int64(math.Round(share * float64(sizeOf(c.length))))}
	c.fill(m.filled)
	server := c.serve(setting)
	defer server.Kill()
	attempts, creationsBefore := server.Histogram("kgs_fallback_attempts")
	load := lab.Traffic(c, server)
	defer func() {
		links, _ := measure.ReadBack(c, server, c.census(), load)
		r.links = sources.Sum(r.links, *links)
	}()
	took := make([]time.Duration, creations)
	c.Must(lab.Together(creations, width, func(n int) error {
		start := time.Now()
		_, _ = load.TryOne(c.Context()) // a claim judges its error
		took[n] = time.Since(start)
		return c.Context().Err()
	}))
	slices.Sort(took)
	m.p99 = took[99*(creations-1)/100]
	m.count(c, load.Entries())
	attemptsAfter, creationsAfter := server.Histogram("kgs_fallback_attempts")
	m.reported = (attemptsAfter - attempts) / (creationsAfter - creationsBefore)
	return m
}

// count counts the creations and their attempts.
func (m *measured) count(c *crowd, entries []loadtest.Entry) {
	failed := make(map[string]bool)
	for _, e := range entries {
		if e.State != loadtest.Acknowledged {
			failed[e.URL] = true
		}
	}
	m.made, m.failed = int64(len(entries)-len(failed)), int64(len(failed))
	c.offered(func(code, url string) {
		if m.offered = append(m.offered, code); failed[url] {
			m.wasted++
		}
	})
}

// attempts returns the number of attempts per link, as counted in the database. It is unknown how many of the failed
// creations made a link. Therefore attempts uses the number of links that gives the result nearest to want.
func (m *measured) attempts(want float64) float64 {
	offered, made := float64(len(m.offered)), float64(m.made)
	return offered / min(max(offered/want, made), made+float64(m.failed))
}

// predicted returns the mean number of attempts that is expected if each attempt draws every code with the same
// probability. This is the mean of 1/(1-f), where f is the share of codes in use at each creation. The codes in
// use are the codes of the fillers and of the earlier links. Each new link replaces a filler, so the number of
// codes in use is constant until no filler is left. After that, only the earlier links use codes. The function
// serve made one link before the first of these creations.
func (m *measured) predicted(size int64) float64 {
	sum := 0.0
	for i := range m.made {
		sum += float64(size) / float64(size-max(m.filled, i+1))
	}
	return sum / float64(m.made)
}
