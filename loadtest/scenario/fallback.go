package scenario

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"keypool/loadtest"
	"keypool/loadtest/report"
	"keypool/loadtest/testbed"
)

func fallback(ctx context.Context, r *Run) (report.Scenario, error) {
	plan := fallbackPlan{length: 3, shares: shares(), tolerance: 0.03, fewest: 500, ledger: 300}
	if r.Full {
		plan = fallbackPlan{length: 4, shares: shares(), tolerance: 0.01, fewest: 10_000, ledger: 10_000}
	}
	return plan.run(ctx, r)
}

// fallbackPlan is how large the experiment is. The length is that of the codes: three
// characters make a space that is filled in a second.
type fallbackPlan struct {
	length    int
	shares    []float64 // how full the space is, level by level
	tolerance float64   // a share of the attempts that are predicted
	fewest    int       // creations at a level at the least
	ledger    int       // creations at each level with FALLBACK=ledger
}

const (
	// sigmas is how many standard deviations of the observed mean make the tolerance: an
	// honest service is beyond them once in a thousand times.
	sigmas = 3.3
	// leisure is how much is asked of the server of what it can do at most, and burst
	// creations, so many at a time, tell how much that is where burstShare is in use, if
	// any level is as full.
	leisure    = 0.75
	burst      = 1500
	burstWidth = 128
	burstShare = 0.8
)

// shares are the levels that the claims are about.
func shares() []float64 { return []float64{0.0002, 0.25, 0.5, 0.71, 0.8, 0.9, 0.946} }

// creations is how many it takes until the mean of their attempts, each a geometric
// variable of relative deviation sqrt(f), is as exact as the tolerance asks for.
func (plan fallbackPlan) creations(share float64) int {
	return max(plan.fewest, int(math.Ceil(share*sigmas*sigmas/(plan.tolerance*plan.tolerance))))
}

// fallbackRun is the experiment under way.
type fallbackRun struct {
	fallbackPlan
	Part
	bed   *testbed.Bed
	crowd *crowd
	pulse *pulse
	pace  float64 // attempts per second
}

func (plan fallbackPlan) run(ctx context.Context, r *Run) (_ report.Scenario, err error) {
	f := &fallbackRun{fallbackPlan: plan}
	f.enterClaims()
	if f.bed, err = testbed.New(r.Programs); err != nil {
		return f.Scenario, err
	}
	defer func() { err = errors.Join(err, f.bed.Close()) }()
	dir, err := os.MkdirTemp("", "keypool-fallback-")
	if err != nil {
		return f.Scenario, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if f.crowd, err = newCrowd(ctx, dir, plan.length); err != nil {
		return f.Scenario, err
	}
	defer func() { err = errors.Join(err, f.crowd.close()) }()
	f.pulse = r.pulse(ctx, "fallback", f.expected())
	defer f.pulse.stop()

	stages, err := f.stages(ctx)
	f.judgeStages(stages)
	f.show(stages)
	return f.Scenario, err
}

// expected is about how long it takes.
func (plan fallbackPlan) expected() time.Duration {
	const attemptsPerSecond = 15_000
	attempts := 0.0
	for _, share := range plan.shares {
		attempts += float64(plan.creations(share)) / (1 - share)
	}
	return time.Duration(attempts/attemptsPerSecond*float64(time.Second)) + 10*time.Second
}

// stages fills the space from level to level and measures at each, until ctx ends.
func (f *fallbackRun) stages(ctx context.Context) (stages []stage, err error) {
	f.pulse.enter("how fast it can go")
	if f.pace, err = f.gallop(ctx); err != nil {
		return nil, err
	}
	for _, share := range f.shares {
		l := stage{share: share}
		f.pulse.enter(fmt.Sprintf("f = %g, FALLBACK=ledger", share))
		l.ledger, err = f.measure(ctx, share, f.ledger, "FALLBACK=ledger")
		if err == nil && ctx.Err() == nil {
			f.pulse.enter(fmt.Sprintf("f = %g", share))
			l.random, err = f.measure(ctx, share, f.creations(share), "FALLBACK=random")
		}
		l.cut = err != nil || ctx.Err() != nil
		stages = append(stages, l)
		if l.cut {
			return stages, err
		}
	}
	return stages, nil
}

// serve fills the space to share and starts a server that can draw from nothing but its
// fallback: nobody listens where its Redis should be. The first link is made here, for it
// waits until the server has found that out.
func (f *fallbackRun) serve(ctx context.Context, share float64, leaving int, setting string) (*testbed.Program, error) {
	n := int64(math.Round(share * float64(f.crowd.size())))
	if err := f.crowd.fill(ctx, n, int64(leaving)+1); err != nil {
		return nil, fmt.Errorf("fill the space: %w", err)
	}
	settings := append(f.crowd.settings(), "REDIS_URL=redis://127.0.0.1:1", "KGS_WORKER=false", "KGS_BATCH_MAX=1000", setting)
	server, err := f.bed.Server(ctx, settings...)
	if err != nil {
		return nil, err
	}
	client := loadtest.NewClient(server.Public, 0)
	defer client.Close()
	if first := client.Create(ctx, "https://loadtest.example/first"); first.State != loadtest.Acknowledged {
		return nil, fmt.Errorf("the first link is not made: %s %s", first.State, first.Detail)
	}
	return server, nil
}

// gallop finds out how many attempts per second can be asked of a server at leisure.
func (f *fallbackRun) gallop(ctx context.Context) (pace float64, err error) {
	server, err := f.serve(ctx, f.busy(), burst, "FALLBACK=random")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Kill()) }()
	client := loadtest.NewClient(server.Public, 0)
	defer client.Close()
	var clients errgroup.Group
	clients.SetLimit(burstWidth)
	start := time.Now()
	for n := range burst {
		clients.Go(func() error {
			client.Create(ctx, fmt.Sprintf("https://loadtest.example/gallop/%d", n))
			return nil
		})
	}
	_ = clients.Wait() // what fails here is not what is measured
	elapsed := time.Since(start)
	offered, err := f.crowd.offered(ctx)
	attempts := max(burst, len(offered)) // also where the store is not offered what is acknowledged
	return leisure * float64(attempts) / elapsed.Seconds(), err
}

// measure makes links at a constant rate while the space is in use to share, and reads
// them back, also when ctx ends meanwhile.
func (f *fallbackRun) measure(ctx context.Context, share float64, creations int, setting string) (m measured, err error) {
	server, err := f.serve(ctx, share, creations, setting)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, server.Kill()) }()
	m.filled, m.leaving = f.crowd.filled, f.crowd.leaving
	before, err := f.account(ctx, server)
	if err != nil {
		return m, err
	}
	recorder := loadtest.NewRecorder()
	f.pulse.watch(recorder, server.Admin)
	traffic, err := NewTraffic(server.Public, recorder)
	if err != nil {
		return m, err
	}
	defer traffic.Close()
	rate := f.rate(share)
	if m.others, err = Besides(ctx, func() error {
		return traffic.run(ctx, rate, time.Duration(float64(creations)/rate*float64(time.Second)))
	}); err != nil {
		return m, err
	}
	m.crowded = crowded(traffic.Entries())
	m.latency = recorder.Figures().Latency
	ctx, cancel := afterwards(ctx)
	defer cancel()
	after, err := f.account(ctx, server)
	if err != nil {
		return m, err
	}
	m.offered = after.offered[len(before.offered):]
	m.told = ratio(after.attempts-before.attempts, after.creations-before.creations)
	m.commit = time.Duration(ratio(after.seconds-before.seconds, after.commits-before.commits) * float64(time.Second))
	// So that it is the store that answers, and not what the server remembers.
	if err := errors.Join(server.Kill(), server.Restart(ctx)); err != nil {
		return m, err
	}
	m.verdict, err = traffic.Judge(ctx)
	return m, err
}

// rate is how many creations per second keep to the pace. Where they take next to no
// attempts it is the requests that cost, and what could be done in the burst can be done
// there.
func (f *fallbackRun) rate(share float64) float64 { return f.pace * (1 - max(share, f.busy())) }

// busy is how much of the space is in use in the burst.
func (plan fallbackPlan) busy() float64 { return min(burstShare, slices.Max(plan.shares)) }
