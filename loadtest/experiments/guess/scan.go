package guess

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"path/filepath"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"

	"golang.org/x/sync/errgroup"
)

// scanPlan is how large the experiment is.
type scanPlan struct {
	length int     // of the codes
	links  int     // made before the scan
	rate   float64 // at which they are made, per second
	known  int     // codes that the attacker knows
	reach  int     // guesses on each side of a known code
	alone  time.Duration
}

func planOf(t *experiment.T) scanPlan {
	switch {
	case t.Full: // a million guesses
		return scanPlan{length: 5, links: 1_000_000, rate: 2000, known: 100, reach: 5000, alone: 10 * time.Second}
	case t.Scale < 1:
		return scanPlan{length: 3, links: 400, rate: 400, known: 20, reach: 20, alone: time.Second}
	}
	return scanPlan{length: 4, links: 12_000, rate: 2000, known: 100, reach: 60, alone: 2 * time.Second}
}

// scanPool is how many keys a pool holds.
const scanPool = 50_000

// scanRecord is what the experiment observes.
type scanRecord struct {
	plan     scanPlan
	permuted victim
	counter  victim
	alone    answers       // to guesses from one address
	elapsed  time.Duration // in which these were made; 0: they were not
}

// victim is a service that is scanned.
type victim struct {
	codes   []int64 // of its links, as base62 numbers
	known   map[int64]bool
	guesses []int64
	answers answers
}

func runScan(t *experiment.T, r *scanRecord) {
	r.plan = planOf(t)
	victims := []*victim{&r.permuted, &r.counter}
	t.Phase(0, "starting")
	servers, databases := startVictims(t, r.plan.length)
	t.Phase(0.1, "making links")
	makeLinks(t, r.plan, servers)
	for i, v := range victims {
		v.readCodes(t, r.plan, databases[i])
		v.aim(r.plan)
		t.Phase(0.4+0.2*float64(i), "%d guesses near known codes", len(v.guesses))
		v.answers.try(t.Context(), servers[i].Public, codesOf(v.guesses, r.plan.length), botnet)
	}
	t.Phase(0.8, "guesses from one address")
	short, cancel := context.WithTimeout(t.Context(), r.plan.alone)
	defer cancel()
	start := time.Now()
	for short.Err() == nil {
		r.alone.try(short, servers[0].Public, codesOf(r.permuted.guesses, r.plan.length), oneAddress)
	}
	if t.Context().Err() == nil {
		r.elapsed = time.Since(start)
	}
}

// startVictims starts two services on one Redis, the second without permutation. They believe
// the harness which address a request comes from, as they would believe a reverse proxy.
func startVictims(t *experiment.T, length int) (servers []*lab.Program, databases []string) {
	redis := lab.Redis(t)
	for _, permute := range []string{"KGS_PERMUTE=true", "KGS_PERMUTE=false"} {
		links := "sqlite:" + filepath.Join(t.TempDir(), "links.db")
		server := lab.Server(t, "DATABASE_URL="+links, "REDIS_URL="+redis.URL, fmt.Sprintf("CODE_LENGTH=%d", length),
			fmt.Sprintf("KGS_POOL_CAPACITY=%d", scanPool), "TRUSTED_PROXIES=127.0.0.1/32", permute)
		server.Start()
		servers, databases = append(servers, server), append(databases, links)
	}
	return servers, databases
}

// makeLinks makes links on both services at the same time.
func makeLinks(t *experiment.T, plan scanPlan, servers []*lab.Program) {
	loads := []*lab.Load{lab.Traffic(t, servers[0]), lab.Traffic(t, servers[1])}
	var both errgroup.Group
	for _, load := range loads {
		both.Go(func() error {
			return load.Run(t.Context(), plan.rate, time.Duration(float64(plan.links)/plan.rate*float64(time.Second)), load.Recorder())
		})
	}
	t.Must(both.Wait())
}

// readCodes reads the codes from the database, which also holds those of creations without an
// answer.
func (v *victim) readCodes(t *experiment.T, plan scanPlan, database string) {
	t.Must(lab.Census(database)(t.Context(), func(code, _ string) {
		if n, ok := base62.number(code); ok && len(code) == plan.length {
			v.codes = append(v.codes, n.Int64())
		}
	}))
	if len(v.codes) < plan.known {
		t.Fatalf("only %d links were made", len(v.codes))
	}
}

// codesOf writes numbers in base62.
func codesOf(numbers []int64, length int) []string {
	codes := make([]string, len(numbers))
	for i, n := range numbers {
		codes[i], _ = base62.code(big.NewInt(n), length) // aim lists no number beyond the last code
	}
	return codes
}

// aim chooses known codes and lists each code within reach of one of them once.
func (v *victim) aim(plan scanPlan) {
	v.known = make(map[int64]bool, plan.known)
	for _, i := range rand.Perm(len(v.codes))[:min(plan.known, len(v.codes))] { //nolint:gosec // nothing secret about it
		v.known[v.codes[i]] = true
	}
	listed := make(map[int64]bool)
	reach, last := int64(plan.reach), base62.size(plan.length).Int64()-1
	for n := range v.known {
		for guess := max(0, n-reach); guess <= min(n+reach, last); guess++ {
			if !v.known[guess] && !listed[guess] {
				listed[guess] = true
				v.guesses = append(v.guesses, guess)
			}
		}
	}
}
