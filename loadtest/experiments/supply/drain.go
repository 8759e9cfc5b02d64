package supply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

const (
	patience    = 30 * time.Second // a wait may exceed its estimate by this time; the claims have their own bounds
	steadyAfter = 2 * time.Second  // time from the start of the load until its rate is steady
)

// run is one run of the experiment.
type run struct {
	*experiment.T
	*record
	postgres       *lab.Database
	server, worker *lab.Program
	hook           *lab.Hook
	levels         *levels
	load           *lab.Load
	statuses       *lab.Sampler[lab.Status] // the answers of /status of the server
}

func runDrain(t *experiment.T, r *record) {
	r.plan = choose(t)
	if t.Full {
		fillFull(t, r)
	}
	d := start(t, r)
	defer func() {
		d.load.Stop()
		t.Phase(0.99, "reading every link back")
		links, notes := measure.ReadBack(t, d.server, lab.Census(d.postgres.URL), d.load)
		r.links, r.notes = links, append(r.notes, notes...)
	}()
	t.Phase(0.2, "the worker keeps the pool full")
	d.load.Start(d.rate)
	err := d.drainAndRefill()
	r.seen, r.statuses = since(d.levels.seen, d.started), d.statuses.Stop()
	r.alerts = slices.DeleteFunc(d.hook.Alerts(), func(a lab.Alert) bool { return a.Received.Before(d.started) })
	if len(r.seen) > 0 && !r.started.IsZero() {
		t.Must(r.simulate(t.Context()))
	}
	if errors.Is(err, errLate) { // the claims report which event is missing
		r.notes = append(r.notes, "The run ended early: "+err.Error())
		return
	}
	t.Must(err)
}

// start starts the programs and returns when the server reports a full pool.
func start(t *experiment.T, r *record) *run {
	t.Phase(0, "filling the pool")
	d := &run{T: t, record: r, hook: lab.Webhook(t), postgres: lab.Postgres(t)}
	redis := lab.Redis(t)
	settings := []string{"DATABASE_URL=" + d.postgres.URL, "REDIS_URL=" + redis.URL, fmt.Sprintf("KGS_POOL_CAPACITY=%d", d.capacity)}
	d.worker = lab.Worker(t, settings...)
	d.server = lab.Server(t, append(settings, "KGS_WORKER=false", "ALERT_WEBHOOK_URL="+d.hook.URL,
		fmt.Sprintf("KGS_BATCH_MIN=%d", batch), fmt.Sprintf("KGS_BATCH_MAX=%d", batch))...)
	d.worker.Start()
	d.server.Start()
	d.levels, d.load = watchLevels(t, redis.URL), lab.Traffic(t, d.server)
	d.statuses = lab.Watch(t, checkEvery, d.status)
	lab.Wait(t, lab.Patience, "the server reports a full pool", func() bool {
		status, err := d.server.TryStatus()
		return err == nil && status.Full()
	})
	return d
}

// status returns the status of the server, and shows the level of the pool and the runway.
func (d *run) status(context.Context) (lab.Status, error) {
	s, err := d.server.TryStatus()
	if s.PoolKeys != nil {
		runway := "unknown"
		if s.RunwaySeconds != nil {
			runway = report.Duration(time.Duration(*s.RunwaySeconds * float64(time.Second)))
		}
		d.Detail("pool %d, runway %s", *s.PoolKeys, runway)
	}
	return s, err
}

// lasts returns the time in which the given number of keys is used up at the rate of the plan.
func (p plan) lasts(keys int64) time.Duration {
	return time.Duration(float64(keys) / p.rate * float64(time.Second))
}

// leastFull returns the number of keys at which the experiment counts the pool as full. A worker refills the pool when
// it holds less than nine tenths of its capacity.
func leastFull(capacity int64) int64 { return capacity - capacity/10 }

// await observes the level of the pool until enough returns true for a level. If at is not nil, await sets *at to the
// time of that level.
func (d *run) await(limit time.Duration, what string, at *time.Time, enough func(level) bool) error {
	l, err := d.levels.await(d.Context(), limit, what, enough)
	if err == nil && at != nil {
		*at = l.at
	}
	return err
}

// signalled reports whether an alert with the given state was received at the given time (start) or later.
func (d *run) signalled(start time.Time, state string) bool {
	_, came := lab.FirstAlert(d.hook.Alerts(), start, state)
	return came
}

// drainAndRefill runs the steps of the experiment in order and returns the first error.
func (d *run) drainAndRefill() error {
	for _, step := range []func() error{d.stopWorker, d.observeTenth, d.runDry, d.refill} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// stopWorker waits until the load is steady, because many of the first requests are sent at the same time.
// Then it stops the worker.
func (d *run) stopWorker() error {
	steady := time.Now().Add(steadyAfter)
	if err := d.await(patience, "the load is steady", nil, func(l level) bool { return l.at.After(steady) }); err != nil {
		return err
	}
	d.worker.Stop()
	return d.await(patience, "Redis answers", &d.started, func(level) bool { return true })
}

// observeTenth waits until a tenth of the keys is taken, and then predicts when the pool is empty.
func (d *run) observeTenth() error {
	d.Phase(0.3, "taking the first tenth of the keys")
	full := keysAt(d.levels.seen, d.started)
	err := d.await(patience+d.lasts(full), "the first tenth is taken", nil, func(l level) bool { return l.keys <= full-full/10 })
	if err == nil {
		d.predicted = predict(since(d.levels.seen, d.started))
		d.unsteady = d.predicted.slope == 0
	}
	return err
}

// runDry waits until the pool is empty, even if there is no prediction. The load then continues with an empty pool
// until the time d.dry has passed and the service has signalled `page`.
func (d *run) runDry() error {
	d.Phase(0.4, "draining the pool until it is empty")
	if err := d.await(patience+2*d.lasts(d.capacity), "the pool is empty", &d.empty, func(l level) bool { return l.keys == 0 }); err != nil {
		return err
	}
	d.Phase(0.8, "creating links without a pool")
	return d.await(patience+d.dry, "the service has signalled page", nil, func(l level) bool {
		return l.at.Sub(d.empty) >= d.dry && d.signalled(d.started, "page")
	})
}

// refill starts the worker again and waits until the pool is full and the service has signalled `ok`. With the
// setting staysDead, it does not start the worker.
func (d *run) refill() error {
	d.Phase(0.9, "the worker refills the pool")
	d.back = time.Now()
	if !slices.Contains(d.Settings(), staysDead) {
		d.worker.Launch()
	}
	err := d.await(patience+refillBound(d.capacity), "the pool is full again", &d.full, func(l level) bool { return l.keys >= leastFull(d.capacity) })
	if err != nil {
		return err
	}
	return d.await(patience, "the service has signalled ok", nil, func(level) bool { return d.signalled(d.back, "ok") })
}
