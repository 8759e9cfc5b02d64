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
	steadyRounds     = 3 // of creations and the least that could be done, in turn
	warmUp           = 300 * time.Millisecond
)

// The claims of the scenario besides the accounts.
const (
	claimSteadyRate = "steady rate"
	claimSteadyP99  = "steady p99"
)

// creation is the scenario "create" under way.
type creation struct {
	part
	run     *Run
	rate    float64
	steady  time.Duration // of the steady load in all
	each    time.Duration // of a step
	stand   *stand
	pulse   *pulse
	traffic *traffic // records the steady load
	beside  *beside  // nil when there is nothing to measure beside
	held    float64  // seconds of steady load until the last outcome
	steps   []step
}

func create(ctx context.Context, run *Run) (_ report.Scenario, err error) {
	c := newCreation(run)
	c.pulse = run.pulse(ctx, "create", 4*time.Second+2*c.steady+climbSteps*c.each)
	defer c.pulse.stop()
	c.pulse.enter("starting")
	if c.stand, err = run.stand(ctx); err != nil {
		return c.Scenario, err
	}
	defer func() { err = errors.Join(err, c.stand.close()) }()
	if c.traffic, err = newTraffic(c.stand.target, loadtest.NewRecorder()); err != nil {
		return c.Scenario, err
	}
	defer c.traffic.close()
	c.Settings = c.stand.settings()
	err = c.load(ctx)
	return c.Scenario, errors.Join(err, c.judgeAll(ctx))
}

func newCreation(run *Run) *creation {
	c := &creation{run: run, rate: run.Rate, steady: run.Duration, each: createStep}
	if c.rate == 0 {
		c.rate = promisedRate
	}
	if c.steady == 0 {
		c.steady = createSteady
		if run.Full {
			c.steady, c.each = createSteadyFull, createStepFull
		}
	}
	c.each = min(c.each, c.steady)
	c.Summary = fmt.Sprintf("Links are made at a steady %.0f a second, each due at its own moment whatever became of those before; "+
		"then faster and faster, until the service no longer keeps up. Every link that was acknowledged is read back, from "+
		"the store, and no two may have one code.", c.rate)
	c.claim(claimSteadyRate, fmt.Sprintf("At a steady %.0f creations a second, each that is due is acknowledged, 99 of 100 within a second.", c.rate), "/s")
	c.claim(claimSteadyP99, fmt.Sprintf("There, 99 of 100 take at most %.0f ms from when they were due, or, on a machine that is busy with other "+
		"things, at most %.1f times as long as a single-row INSERT at the same rate.", milliseconds(latencyBound), besideFactor), "ms")
	c.claimAccounts()
	return c
}

// load makes the steady load in turn with what it is measured beside, then climbs.
func (c *creation) load(ctx context.Context) error {
	if err := c.prepare(ctx); err != nil {
		return err
	}
	if c.beside != nil {
		defer c.beside.close()
	}
	for range steadyRounds {
		c.pulse.enter(fmt.Sprintf("steady %.0f/s", c.rate))
		c.pulse.watch(c.traffic.recorder, c.stand.admin)
		started := time.Now()
		if err := c.traffic.run(ctx, c.rate, c.steady/steadyRounds); err != nil {
			return err
		}
		c.held += time.Since(started).Seconds()
		if c.beside != nil {
			c.pulse.enter("the same rate of " + c.beside.name)
			c.pulse.watch(c.beside.recorder, c.stand.admin)
			c.beside.run(ctx, c.rate, c.steady/steadyRounds/2)
		}
	}
	first := step{Offered: c.rate, Seconds: c.held, Figures: c.traffic.recorder.Figures()}
	steps, err := climb(ctx, c.rate*climbFactor, c.each, c.pulse, c.step)
	c.steps = append([]step{first}, steps...)
	return err
}

// prepare opens connections and fills caches before anything is measured.
func (c *creation) prepare(ctx context.Context) (err error) {
	if c.stand.postgres != nil {
		if c.beside, err = inserts(ctx, c.stand.postgres.URL); err != nil {
			return err
		}
		measured := c.beside.recorder
		c.beside.recorder = loadtest.NewRecorder()
		c.beside.run(ctx, c.rate, warmUp)
		c.beside.recorder = measured
	}
	return c.traffic.load.Run(ctx, loadtest.Schedule{Rate: c.rate, Duration: warmUp}, loadtest.NewRecorder())
}

// step is a [measure] of creations.
func (c *creation) step(ctx context.Context, rate float64, duration time.Duration) (step, error) {
	r := loadtest.NewRecorder()
	c.pulse.watch(r, c.stand.admin)
	started := time.Now()
	err := c.traffic.load.Run(ctx, loadtest.Schedule{Rate: rate, Duration: duration}, r)
	return step{Offered: rate, Seconds: time.Since(started).Seconds(), Figures: r.Figures()}, err
}

// judgeAll reads everything back and judges what ran.
func (c *creation) judgeAll(ctx context.Context) error {
	c.pulse.enter("reading every link back")
	steady := c.traffic.recorder.Figures()
	if steady.Sent > 0 {
		c.judgeSteady(steady)
	}
	after, cancel := afterwards(ctx)
	defer cancel()
	if err := c.stand.forget(after); err != nil {
		return err
	}
	verdict, err := c.traffic.judge(after)
	acknowledged := verdict.Acknowledged
	verdict.Figures = c.served(steady) // beyond the knee creations may fail
	verdict.Acknowledged = acknowledged
	c.judgeAccounts(verdict)
	c.tell()
	return err
}

// served is what was sent at rates that the service kept up with, the steady one at least.
func (c *creation) served(steady loadtest.Figures) loadtest.Figures {
	for i := range c.steps[min(1, len(c.steps)):] {
		if s := &c.steps[i+1]; s.kept() {
			steady.Sent += s.Sent
			steady.Acknowledged += s.Acknowledged
		}
	}
	return steady
}

func (c *creation) judgeSteady(f loadtest.Figures) {
	c.figures(claimSteadyRate, c.rate, float64(f.Acknowledged)/max(c.held, 0.001))
	c.judge(claimSteadyRate, f.Failed() == 0 && f.Latency.P99 <= time.Second,
		"%d of %d were acknowledged in %.1f s, %d refused, %d unanswered, %d unsent; %v",
		f.Acknowledged, f.Sent+f.Unsent, c.held, f.Refused, f.Unknown, f.Unsent, f.Latency)
	if c.beside == nil {
		c.cannotJudge(claimSteadyP99, "there is no PostgreSQL of our own to measure beside; it was %s", ms(f.Latency.P99))
		return
	}
	least := c.beside.recorder.Figures()
	if least.Acknowledged == 0 {
		c.cannotJudge(claimSteadyP99, "no INSERT was measured; it was %s", ms(f.Latency.P99))
		return
	}
	c.judgeLatency(claimSteadyP99, f.Latency, c.beside)
}

// judgeLatency holds a p99 against that of the least that could be done.
func (p *part) judgeLatency(name string, l loadtest.Latency, b *beside) {
	least := b.recorder.Figures().Latency
	limit := bound(least.P99)
	p.figures(name, milliseconds(limit), milliseconds(l.P99))
	p.judge(name, l.P99 <= limit, "p99 %s; %s at the same rate, in turn with it, took %s, so at most %s are allowed",
		ms(l.P99), b.name, ms(least.P99), ms(limit))
}

// tell enters what is to be seen.
func (c *creation) tell() {
	if len(c.steps) == 0 {
		return
	}
	c.Charts = stepCharts("creations", c.steps)
	for i := range c.Charts[:1] {
		c.Charts[i].Levels = []report.Mark{{At: milliseconds(latencyBound), Name: "10 ms"}}
	}
	c.Tables = []report.Table{stepTable("Creations by rate", c.steps)}
	if c.beside != nil {
		c.Notes = append(c.Notes, fmt.Sprintf("In turn with the steady load, %s at the same rate: %v.", c.beside.name, c.beside.recorder.Figures().Latency))
	}
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
