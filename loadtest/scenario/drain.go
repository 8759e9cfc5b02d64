package scenario

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/report"
	"keypool/loadtest/testbed"
)

// How much is drained how fast, unless it is told otherwise. The small pool lasts eleven
// seconds, and has to: of one that lasts ten or less the switch, which looks once a second,
// may not see that it is below 20 percent before it is below 10; and what would last twelve,
// and yet less than a minute, it calls after ten seconds in which nothing arrived, before its
// levels are reached.
const (
	drainSeconds     = 11.0
	drainKeysFull    = 1_000_000
	drainRateFull    = 2000.0 // so that 20 % are more than a minute's supply
	drainBatch       = 50     // keys in a local batch
	fallbackLasts    = 3 * time.Second
	fallbackLastFull = 30 * time.Second
)

// drainage is the scenario "drain" under way.
type drainage struct {
	Part
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
	traffic *Traffic
	levels  *levels
	ear     *ear
	record  drainRecord
}

// drainRecord is what happened, and all that a drainage is judged by. A zero time is that of
// what did not happen.
type drainRecord struct {
	seen     []level
	signals  []told
	started  time.Time // the worker was stopped, under a load that was steady by then
	foretold decline   // from the first tenth
	unsteady bool      // that went down in no way that foretells anything
	empty    time.Time // the pool was
	back     time.Time // the worker was started again
	full     time.Time // the pool was
	others   float64   // the share of the processors that other programs took
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

// drainSlowest is the rate below which a batch, the last of which may be next to empty, is
// more of the small pool than may be foretold wrong: of nine tenths of it, for the worker may
// be stopped right before it refills.
func drainSlowest() float64 { return math.Ceil(drainBatch / (emptyWithin * 0.9 * drainSeconds)) }

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
	defer d.traffic.Close()

	err = d.experiment(ctx)
	d.record.seen, d.record.signals = d.levels.seen, d.ear.signals()
	d.judgeRecord()
	err = errors.Join(err, d.account(ctx))
	d.draw(d.pulse.stop())
	return err
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
	d.traffic, err = NewTraffic(d.server.Public, loadtest.NewRecorder())
	return err
}

// account reads every link back and judges the accounts.
func (d *drainage) account(ctx context.Context) error {
	d.pulse.enter("reading every link back")
	d.pulse.watch(nil, "") // the charts are of the experiment
	after, cancel := afterwards(ctx)
	defer cancel()
	if err := d.server.Restart(after); err != nil {
		return fmt.Errorf("restart the server before its links are read back: %w", err)
	}
	verdict, err := d.traffic.Judge(after)
	d.judgeAccounts(verdict)
	d.tellFailures(d.traffic.Entries())
	return err
}
