package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"keypool/kgs/codespace"
	"keypool/loadtest"
	"keypool/loadtest/report"
	"keypool/loadtest/testbed"

	"golang.org/x/sync/errgroup"
)

// scanPlan is how large the experiment is.
type scanPlan struct {
	length  int     // of the codes
	links   int     // made before the scan
	rate    float64 // at which they are made, per second
	known   int     // codes that the attacker learnt: those of links of his own
	reach   int     // guesses on each side of a known code
	alone   time.Duration
	permute string // the setting of the service that is to withstand
}

const (
	// scanWidth is how many guesses are under way at a time.
	scanWidth = 16
	// scanPool is how many keys a pool holds.
	scanPool = 50_000
)

// scan is an attacker who guesses codes next to those that he knows.
func scan(ctx context.Context, r *Run) (report.Scenario, error) {
	plan := scanPlan{
		length: 4, links: 12_000, rate: 2000, known: 100, reach: 60, alone: 2 * time.Second, permute: "KGS_PERMUTE=true",
	}
	if r.Full { // a million guesses
		plan.length, plan.links, plan.reach, plan.alone = 5, 1_000_000, 5000, 10*time.Second
	}
	return plan.run(ctx, r)
}

// expected is about how long it takes.
func (plan scanPlan) expected() time.Duration {
	const guessesPerSecond = 5000
	seconds := float64(plan.links)/plan.rate + float64(4*plan.known*plan.reach)/guessesPerSecond
	return 3*time.Second + plan.alone + time.Duration(seconds*float64(time.Second))
}

// scanRun is the experiment under way.
type scanRun struct {
	scanPlan
	Part
	bed      *testbed.Bed
	pulse    *pulse
	permuted *victim
	counter  *victim
}

// victim is a service that is scanned, and what came of it.
type victim struct {
	server  *testbed.Program
	traffic *Traffic
	codes   []int64 // of its links, as base 62 numbers
	known   map[int64]bool
	guesses []int64
	answers answers

	alone   answers       // what one address was answered
	elapsed time.Duration // in so much time
}

func (plan scanPlan) run(ctx context.Context, r *Run) (_ report.Scenario, err error) {
	s := &scanRun{scanPlan: plan}
	s.enterClaims()
	s.pulse = r.pulse(ctx, "scan", plan.expected())
	defer s.pulse.stop()
	s.pulse.enter("starting")
	if s.bed, err = testbed.New(r.Programs); err != nil {
		return s.Scenario, err
	}
	defer func() { err = errors.Join(err, s.bed.Close()) }()
	if err := s.start(ctx); err != nil {
		return s.Scenario, err
	}
	if err := s.makeLinks(ctx); err != nil {
		return s.Scenario, err
	}
	for _, v := range []*victim{s.permuted, s.counter} {
		v.aim(s.known, s.reach, s.length)
		s.attack(ctx, v)
	}
	s.attackAlone(ctx, s.permuted)
	if ctx.Err() != nil {
		return s.Scenario, nil
	}
	s.judgeScan()
	s.draw()
	return s.Scenario, nil
}

// start starts both services on one Redis, each with a database of its own. They believe the
// harness whom a request comes from, as they would a reverse proxy before them.
func (s *scanRun) start(ctx context.Context) error {
	redis, err := s.bed.Redis(ctx)
	if err != nil {
		return err
	}
	for _, start := range []struct {
		victim  **victim
		permute string
	}{{&s.permuted, s.permute}, {&s.counter, "KGS_PERMUTE=false"}} {
		server, err := s.bed.Server(ctx, "REDIS_URL="+redis.URL, fmt.Sprintf("CODE_LENGTH=%d", s.length),
			fmt.Sprintf("KGS_POOL_CAPACITY=%d", scanPool), "TRUSTED_PROXIES=127.0.0.1/32", start.permute)
		if err != nil {
			return err
		}
		if *start.victim, err = newVictim(server); err != nil {
			return err
		}
	}
	return nil
}

func newVictim(server *testbed.Program) (*victim, error) {
	traffic, err := NewTraffic(server.Public, loadtest.NewRecorder())
	return &victim{server: server, traffic: traffic}, err
}

// makeLinks makes links on both services at once.
func (s *scanRun) makeLinks(ctx context.Context) error {
	s.pulse.enter("making links")
	s.pulse.watch(s.permuted.traffic.recorder, s.permuted.server.Admin)
	var loads errgroup.Group
	for _, v := range []*victim{s.permuted, s.counter} {
		loads.Go(func() error {
			defer v.traffic.Close()
			return v.traffic.run(ctx, s.rate, time.Duration(float64(s.links)/s.rate*float64(time.Second)))
		})
	}
	if err := loads.Wait(); err != nil {
		return err
	}
	for _, v := range []*victim{s.permuted, s.counter} {
		plain := codespace.Plain()
		for _, e := range v.traffic.Entries() {
			if length, n, err := plain.Number(e.Code); err == nil && length == s.length {
				v.codes = append(v.codes, n)
			}
		}
		if len(v.codes) < s.known && ctx.Err() == nil {
			return fmt.Errorf("only %d links were made", len(v.codes))
		}
	}
	return nil
}

// codesOf writes numbers in base 62.
func codesOf(numbers []int64, length int) []string {
	plain := codespace.Plain()
	codes := make([]string, len(numbers))
	for i, n := range numbers {
		codes[i] = plain.Code(length, n)
	}
	return codes
}

// aim learns so many codes and lists each code within reach of one of them once.
func (v *victim) aim(known, reach, length int) {
	v.known = make(map[int64]bool, known)
	for _, i := range rand.Perm(len(v.codes))[:min(known, len(v.codes))] { //nolint:gosec // nothing secret about it
		v.known[v.codes[i]] = true
	}
	listed := make(map[int64]bool, 2*known*reach)
	for n := range v.known {
		for guess := max(0, n-int64(reach)); guess <= min(n+int64(reach), codespace.Size(length)-1); guess++ {
			if !v.known[guess] && !listed[guess] {
				listed[guess] = true
				v.guesses = append(v.guesses, guess)
			}
		}
	}
}

// attack tries every guess, each from an address of its own.
func (s *scanRun) attack(ctx context.Context, v *victim) {
	s.pulse.enter(fmt.Sprintf("%d guesses near known codes", len(v.guesses)))
	scanner := newScanner(v.server.Public)
	defer scanner.close()
	v.answers = scanner.try(ctx, codesOf(v.guesses, s.length), botnet)
}

// attackAlone goes on guessing from one address for a while.
func (s *scanRun) attackAlone(ctx context.Context, v *victim) {
	s.pulse.enter("guesses from one address")
	scanner := newScanner(v.server.Public)
	defer scanner.close()
	guesses := codesOf(v.guesses, s.length)
	short, cancel := context.WithTimeout(ctx, s.alone)
	defer cancel()
	start := time.Now()
	for short.Err() == nil {
		v.alone.add(scanner.try(short, guesses, oneAddress))
	}
	v.elapsed = time.Since(start)
}
