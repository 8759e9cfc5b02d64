package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/report"
)

// The rate that is promised, and how long the parts of the scenario take unless they are
// told otherwise.
const (
	promisedRate = 1000.0 // creations per second

	createSteady     = 7500 * time.Millisecond
	createSteadyFull = time.Minute
	createStep       = time.Second
	createStepFull   = 10 * time.Second
)

// The claims of the scenario besides the accounts.
const (
	claimSteadyRate = "steady rate"
	claimSteadyP99  = "steady p99"
)

// creation is the scenario "create" under way.
type creation struct {
	Part
	run     *Run
	rate    float64
	lasts   time.Duration // the steady load in all
	each    time.Duration // a step
	stand   *stand
	pulse   *pulse
	traffic *Traffic
	steady  *steady
	steps   []step
}

func create(ctx context.Context, run *Run) (_ report.Scenario, err error) {
	c := newCreation(run)
	c.pulse = run.pulse(ctx, "create", 6*time.Second+2*c.lasts+climbSteps*c.each)
	defer c.pulse.stop()
	c.pulse.enter("starting")
	if c.stand, err = run.stand(ctx); err != nil {
		return c.Scenario, err
	}
	defer func() { err = errors.Join(err, c.stand.close()) }()
	if c.traffic, err = NewTraffic(c.stand.target, loadtest.NewRecorder()); err != nil {
		return c.Scenario, err
	}
	defer c.traffic.Close()
	c.Settings = c.stand.settings()
	err = c.load(ctx)
	err = errors.Join(err, c.judgeAll(ctx))
	return c.Scenario, err
}

func newCreation(run *Run) *creation {
	c := &creation{run: run, rate: run.Rate, lasts: run.Duration, each: createStep}
	if c.rate == 0 {
		c.rate = promisedRate
	}
	if c.lasts == 0 {
		c.lasts = createSteady
		if run.Full {
			c.lasts, c.each = createSteadyFull, createStepFull
		}
	}
	c.each = min(c.each, c.lasts)
	c.Summary = fmt.Sprintf("Links are made at a steady %.0f a second, each due at its own moment whatever became of those before; "+
		"then faster and faster, until the service no longer keeps up. Every link that was acknowledged is read back, from "+
		"the store, and no two may have one code.", c.rate)
	c.Claim(claimSteadyRate, fmt.Sprintf("At a steady %.0f creations a second, each that is due is acknowledged, 99 of 100 within a second.", c.rate), "/s")
	c.claimLatency(claimSteadyP99, "creations", "a single-row INSERT and a bare redirect together", c.rate)
	c.claimSteadyAccounts()
	return c
}

// load makes the steady load, then climbs.
func (c *creation) load(ctx context.Context) error {
	c.steady = &steady{
		what: "creations", rate: c.rate, lasts: c.lasts, load: c.traffic.with, pulse: c.pulse, stand: c.stand,
	}
	if c.stand.postgres != nil {
		rows, err := inserts(ctx, c.stand.postgres.URL)
		if err != nil {
			return err
		}
		defer rows.close()
		bare := redirects()
		defer bare.close()
		c.steady.beside = []*beside{rows, bare}
	}
	if err := c.steady.run(ctx); err != nil {
		return err
	}
	var err error
	c.steps, err = c.run.climb(ctx, c.steady, c.each)
	return err
}

// judgeAll reads everything back and judges what ran.
func (c *creation) judgeAll(ctx context.Context) error {
	c.pulse.enter("reading every link back")
	if c.steady != nil && c.steady.total != nil {
		c.judgeServed(c.steady.all()) // beyond the knee creations may fail
		c.judgeSteady(c.steady.total.Figures())
	}
	after, cancel := afterwards(ctx)
	defer cancel()
	if err := c.stand.forget(after); err != nil {
		return err
	}
	verdict, err := c.traffic.Judge(after)
	c.JudgeLinks(verdict)
	c.tellFailures(c.traffic.Entries())
	c.tell()
	return err
}

func (c *creation) judgeSteady(f loadtest.Figures) {
	if f.Sent+f.Unsent == 0 {
		return
	}
	c.Figures(claimSteadyRate, c.rate, float64(f.Acknowledged)/max(c.steady.seconds, 0.001))
	c.Judge(claimSteadyRate, f.Failed() == 0 && f.Latency.P99 <= time.Second,
		"%d of %d were acknowledged in %.1f s, %d refused, %d unanswered, %d unsent; %v",
		f.Acknowledged, f.Sent+f.Unsent, c.steady.seconds, f.Refused, f.Unknown, f.Unsent, f.Latency)
	c.unfinished(claimSteadyRate, c.steady)
	c.judgeLatency(claimSteadyP99, c.steady)
}

// tell enters what is to be seen.
func (c *creation) tell() {
	if len(c.steps) == 0 {
		return
	}
	c.Charts = stepCharts("creations", c.steps)
	c.Charts[0].Levels = []report.Mark{{At: milliseconds(latencyBound), Name: "10 ms"}}
	c.Tables = []report.Table{stepTable("Creations by rate", c.steps)}
	c.Notes = append(c.Notes, kneeNote(c.steps),
		"The load comes from the same machine: beyond the knee, what gives out may be the sender and not the service.")
}

// kneeNote says where the knee is.
func kneeNote(steps []step) string {
	k := knee(steps)
	if k == nil {
		return "Not even the first rate was kept up with."
	}
	if k == &steps[len(steps)-1] {
		return fmt.Sprintf("The knee was not reached: %.0f/s were kept up with, and nothing faster was tried.", k.Offered)
	}
	return fmt.Sprintf("The knee is after %.0f/s: from the next step on, requests went unsent or unanswered, or p99 was over %s.", k.Offered, ms(kneeLatency))
}
