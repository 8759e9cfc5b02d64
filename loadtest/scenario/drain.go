package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/report"
	"keypool/loadtest/testbed"
)

// How much is drained how fast, unless it is told otherwise. The small pool lasts ten
// seconds, and has to: what would last longer, and yet less than a minute, the dead man's
// switch calls after ten seconds in which nothing arrived, before its levels are reached.
const (
	drainSeconds     = 10.0
	drainKeysFull    = 1_000_000
	drainRateFull    = 2000.0 // so that 20 % are more than a minute's supply
	drainBatch       = 50     // keys in a local batch
	fallbackLasts    = 3 * time.Second
	fallbackLastFull = 30 * time.Second
)

// How long is waited for what ought to happen, at the most.
const (
	fillPatience   = 30 * time.Second
	signalPatience = 10 * time.Second
	emptyPatience  = 1.5 // of the time that was foretold
)

// drainage is the scenario "drain" under way.
type drainage struct {
	part
	run      *Run
	capacity int64
	rate     float64
	fallback time.Duration // how long creations go on without a pool
	settings []string      // of the server, besides those of every drainage
	revive   func(context.Context) error

	bed     *testbed.Bed
	urls    []string
	server  *testbed.Program
	worker  *testbed.Program
	pulse   *pulse
	traffic *traffic
	levels  *levels
	ear     *ear
	record  drainRecord
}

// drainRecord is what happened, and all that a drainage is judged by. A zero time is that of
// what did not happen.
type drainRecord struct {
	seen     []level
	signals  []told
	started  time.Time // the load did
	foretold decline   // from the first tenth
	tenth    time.Time // the first tenth was gone
	empty    time.Time // the pool was
	back     time.Time // the worker was started again
	full     time.Time // the pool was
}

func drain(ctx context.Context, run *Run) (report.Scenario, error) {
	d := newDrainage(run)
	if run.Full {
		if err := d.fillForReal(ctx); err != nil {
			return d.Scenario, err
		}
	}
	err := d.execute(ctx)
	return d.Scenario, err
}

func newDrainage(run *Run) *drainage {
	d := &drainage{run: run, rate: promisedRate, fallback: fallbackLasts}
	if run.Full {
		d.rate, d.capacity, d.fallback = drainRateFull, drainKeysFull, fallbackLastFull
	}
	if run.Rate != 0 {
		d.rate = run.Rate
	}
	if d.capacity == 0 {
		d.capacity = int64(d.rate * drainSeconds)
	}
	d.revive = func(ctx context.Context) error { return d.worker.Restart(ctx) }
	d.Settings = map[string]string{
		"KGS_POOL_CAPACITY": fmt.Sprint(d.capacity), "KGS_BATCH_MAX": fmt.Sprint(drainBatch),
		"creations": fmt.Sprintf("%.0f/s", d.rate), "store": "PostgreSQL, synchronous_commit=on",
	}
	d.Summary = fmt.Sprintf("The only worker that refills the pool is stopped while links are made at %.0f a second. From the first tenth of "+
		"the keys it is foretold when the last will be gone; the dead man's switch has to speak at 20 and at 10 percent, and creations "+
		"must go on without a pool. Then the worker comes back.", d.rate)
	d.enterClaims()
	return d
}

// execute drains the pool and judges. Whatever happened is judged also when it ended early.
func (d *drainage) execute(ctx context.Context) (err error) {
	d.pulse = d.run.pulse(ctx, "drain", time.Duration((12+float64(d.capacity)/d.rate)*float64(time.Second))+d.fallback)
	defer d.pulse.stop()
	d.ear = listen()
	defer d.ear.close()
	if d.bed, err = testbed.New(d.run.Programs); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.bed.Close()) }()
	if err := d.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.levels.close()) }()
	defer d.traffic.close()

	err = d.experiment(ctx)
	d.record.seen, d.record.signals = d.levels.seen, d.ear.signals()
	d.judgeRecord()
	d.draw(d.pulse.stop())
	return errors.Join(err, d.account(ctx))
}

// start starts the servers and has the worker fill the pool.
func (d *drainage) start(ctx context.Context) (err error) {
	d.pulse.enter("filling the pool")
	postgres, err := d.bed.Postgres(ctx)
	if err != nil {
		return err
	}
	redis, err := d.bed.Redis(ctx)
	if err != nil {
		return err
	}
	d.urls = []string{
		"DATABASE_URL=" + postgres.URL, "REDIS_URL=" + redis.URL, fmt.Sprintf("KGS_POOL_CAPACITY=%d", d.capacity),
	}
	if d.worker, err = d.bed.Worker(ctx, d.urls...); err != nil {
		return err
	}
	d.server, err = d.bed.Server(ctx, append(append(d.urls, "KGS_WORKER=false", "ALERT_WEBHOOK_URL="+d.ear.server.URL,
		fmt.Sprintf("KGS_BATCH_MIN=%d", drainBatch), fmt.Sprintf("KGS_BATCH_MAX=%d", drainBatch)), d.settings...)...)
	if err != nil {
		return err
	}
	if d.levels, err = watchLevels(redis.URL); err != nil {
		return err
	}
	d.traffic, err = newTraffic(d.server.Public, loadtest.NewRecorder())
	return err
}

// experiment is the experiment itself. What does not happen in time ends it, and is for the claims
// to tell.
func (d *drainage) experiment(ctx context.Context) error {
	if err := d.awaitFull(ctx); err != nil {
		return err
	}
	if err := d.worker.Stop(); err != nil {
		return err
	}
	d.pulse.watch(d.traffic.recorder, d.server.Admin)
	d.record.started = time.Now()
	flow := d.traffic.start(ctx, d.rate)
	err := d.drainAndRefill(ctx)
	if errors.Is(err, errLate) {
		err = nil
	}
	return errors.Join(err, flow.end())
}

// awaitFull waits until the worker is done and the server knows it.
func (d *drainage) awaitFull(ctx context.Context) error {
	_, err := d.levels.until(ctx, fillPatience+time.Duration(d.capacity)*time.Microsecond, "the pool is full", d.holdsAll)
	if err != nil {
		return err
	}
	return d.await(ctx, "the server sees it full", func() bool {
		status, err := testbed.AskStatus(ctx, d.server.Admin)
		return err == nil && status.State == "ok"
	})
}

// holdsAll says that a pool has all that a worker brings into it.
func (d *drainage) holdsAll(l level) bool { return l.keys >= d.capacity-d.capacity/10 }

// await keeps an eye on the pool until something else holds.
func (d *drainage) await(ctx context.Context, what string, holds func() bool) error {
	_, err := d.levels.until(ctx, signalPatience, what, func(level) bool { return holds() })
	return err
}

func (d *drainage) drainAndRefill(ctx context.Context) error {
	r, l := &d.record, d.levels
	d.pulse.enter("the first tenth")
	full, err := l.look(ctx)
	if err != nil {
		return err
	}
	lasts := time.Duration(float64(full.keys) / d.rate * float64(time.Second))
	tenth, err := l.until(ctx, signalPatience+lasts, "the first tenth is gone", func(now level) bool { return now.keys <= full.keys-full.keys/10 })
	if err != nil {
		return err
	}
	r.tenth = tenth.at
	var known bool
	if r.foretold, known = foretell(since(l.seen, r.started)); !known {
		return errors.New("the pool did not go down steadily enough to foretell anything")
	}
	d.pulse.enter(fmt.Sprintf("empty at %.1f s, it is foretold", r.foretold.empty().Sub(r.started).Seconds()))
	empty, err := l.until(ctx, signalPatience+time.Duration(emptyPatience*float64(time.Until(r.foretold.empty()))),
		"the pool is empty", func(now level) bool { return now.keys == 0 })
	if err != nil {
		return err
	}
	r.empty = empty.at
	d.pulse.enter("without a pool")
	if _, err = l.until(ctx, 2*d.fallback, "", func(now level) bool { return now.at.Sub(r.empty) >= d.fallback }); err != nil {
		return err
	}
	return d.refill(ctx)
}

// refill brings the worker back.
func (d *drainage) refill(ctx context.Context) error {
	d.pulse.enter("the worker is back")
	d.record.back = time.Now()
	if err := d.revive(ctx); err != nil {
		return err
	}
	full, err := d.levels.until(ctx, refillBound(d.capacity)+time.Second, "the pool is full again", d.holdsAll)
	if err != nil {
		return err
	}
	d.record.full = full.at
	return d.await(ctx, "the all-clear", func() bool {
		_, heard := first(d.ear.signals(), d.record.back, "ok")
		return heard
	})
}

// account reads every link back and judges the accounts.
func (d *drainage) account(ctx context.Context) error {
	d.pulse.enter("reading every link back")
	after, cancel := afterwards(ctx)
	defer cancel()
	if err := d.server.Restart(after); err != nil {
		return fmt.Errorf("restart the server before its links are read back: %w", err)
	}
	verdict, err := d.traffic.judge(after)
	d.judgeAccounts(verdict)
	d.tellFailures(d.traffic.journal.Entries())
	return err
}
