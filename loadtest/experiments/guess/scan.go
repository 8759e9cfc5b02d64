package guess

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
)

// scanPlan holds the sizes of the experiment.
type scanPlan struct {
	length int           // length of the codes
	links  int           // links that are made before the scan
	rate   float64       // links that are made per second
	known  int           // codes that the attacker knows
	reach  int           // guesses on each side of a known code
	alone  time.Duration // duration of the guesses from one address
}

func planOf(t *experiment.T) scanPlan {
	switch {
	case t.Full: // this plan makes a million guesses
		return scanPlan{length: 5, links: 1_000_000, rate: 2000, known: 100, reach: 5000, alone: 10 * time.Second}
	case t.Scale < 1:
		return scanPlan{length: 3, links: 400, rate: 400, known: 20, reach: 20, alone: time.Second}
	}
	return scanPlan{length: 4, links: 12_000, rate: 2000, known: 100, reach: 60, alone: 2 * time.Second}
}

// scanPool is the number of keys in a full pool.
const scanPool = 50_000

// scanRecord holds the observations of the experiment.
type scanRecord struct {
	plan     scanPlan
	permuted victim
	counter  victim
	alone    answers       // answers to guesses from one address
	elapsed  time.Duration // duration of the guesses from one address; 0 if the run ended before or during these guesses
}

// victim is a service that is scanned.
type victim struct {
	server *lab.Program
	links  string // the URL of its database
	load   *lab.Load

	codes   []int64 // codes of its links, as numbers
	guesses []int64
	answers answers
}

func runScan(t *experiment.T, r *scanRecord) {
	r.plan = planOf(t)
	t.Phase(0, "starting")
	redis := lab.Redis(t)
	r.permuted.start(t, r.plan, "REDIS_URL="+redis.URL, "KGS_PERMUTE=true")
	r.counter.start(t, r.plan, "REDIS_URL="+redis.URL, "KGS_PREFIX=counter", "KGS_PERMUTE=false")
	t.Phase(0.1, "making links")
	victims := []*victim{&r.permuted, &r.counter}
	var both sync.WaitGroup
	for _, v := range victims {
		lasts := time.Duration(float64(r.plan.links) / r.plan.rate * float64(time.Second))
		both.Go(func() { v.load.Run(t.Context(), r.plan.rate, lasts, v.load.Recorder()) })
	}
	both.Wait()
	for i, v := range victims {
		v.readCodes(t, r.plan)
		v.aim(r.plan)
		t.Phase(0.4+0.2*float64(i), "%d guesses near known codes", len(v.guesses))
		v.answers.try(t.Context(), v.server.Public, codesOf(v.guesses, r.plan.length), botnet)
	}
	t.Phase(0.8, "guesses from one address")
	short, cancel := context.WithTimeout(t.Context(), r.plan.alone)
	defer cancel()
	start := time.Now()
	for short.Err() == nil {
		r.alone.try(short, r.permuted.server.Public, codesOf(r.permuted.guesses, r.plan.length), oneAddress)
	}
	if t.Context().Err() == nil {
		r.elapsed = time.Since(start)
	}
}

// start starts a service. The service trusts the harness as its reverse proxy: the harness names the
// address of the client of each request.
func (v *victim) start(t *experiment.T, plan scanPlan, settings ...string) {
	v.links = "sqlite:" + filepath.Join(t.TempDir(), "links.db")
	v.server = lab.Server(t, append(settings, "DATABASE_URL="+v.links, fmt.Sprintf("CODE_LENGTH=%d", plan.length),
		fmt.Sprintf("KGS_POOL_CAPACITY=%d", scanPool), "TRUSTED_PROXIES=127.0.0.1/32")...)
	v.server.Start()
	v.load = lab.Traffic(t, v.server)
}

// readCodes reads the codes from the database. The load generator does not know the codes of all
// links, because a creation can succeed although its answer is lost.
func (v *victim) readCodes(t *experiment.T, plan scanPlan) {
	form := sources.FormOfLength(plan.length)
	t.Must(lab.Census(v.links)(t.Context(), func(code, _ string) {
		if n, ok := form.Number(code); ok {
			v.codes = append(v.codes, n.Int64())
		}
	}))
	if len(v.codes) < plan.known {
		t.Fatalf("%d links were made, want at least %d", len(v.codes), plan.known)
	}
}

// codesOf returns the codes of numbers.
func codesOf(numbers []int64, length int) []string {
	codes, form := make([]string, len(numbers)), sources.FormOfLength(length)
	for i, n := range numbers {
		codes[i] = form.Code(big.NewInt(n)) // never "", because aim lists only numbers that have a code
	}
	return codes
}

// aim picks known codes at random. It lists the other codes within reach of the known codes, each code once.
func (v *victim) aim(plan scanPlan) {
	listed := make(map[int64]bool)
	picked := rand.Perm(len(v.codes))[:plan.known] //nolint:gosec // the random number need not be secret
	for _, i := range picked {
		listed[v.codes[i]] = true
	}
	reach, last := int64(plan.reach), sources.FormOfLength(plan.length).Size.Int64()-1
	for _, i := range picked {
		for n := max(0, v.codes[i]-reach); n <= min(v.codes[i]+reach, last); n++ {
			if !listed[n] {
				listed[n] = true
				v.guesses = append(v.guesses, n)
			}
		}
	}
}
