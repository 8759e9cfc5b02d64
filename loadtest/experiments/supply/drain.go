package supply

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
)

// How long a run waits at most for what should happen. The claims have their own bounds.
const (
	patience    = 30 * time.Second
	steadyAfter = 2 * time.Second
)

// drainage is one run of the experiment.
type drainage struct {
	*experiment.T
	*record
	postgres       *lab.Database
	server, worker *lab.Program
	hook           *lab.Hook
	levels         *levels
	load           *lab.Load
	pulse          *measure.Pulse
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
	d.pulse.Enter("the worker keeps the pool full")
	d.load.Start(d.rate)
	d.pulse.Follow(d.load.Recorder())
	err := d.drainAndRefill()
	r.seen, r.seconds = since(d.levels.seen, d.started), d.pulse.Stop()
	r.alerts = slices.DeleteFunc(d.hook.Alerts(), func(a lab.Alert) bool { return a.Received.Before(d.started) })
	if errors.Is(err, errLate) { // the claims judge what did not happen
		r.notes = append(r.notes, "The run ended early: "+err.Error())
		return
	}
	t.Must(err)
}

// start starts the programs and returns when the pool is full and the server knows it.
func start(t *experiment.T, r *record) *drainage {
	t.Phase(0, "filling the pool")
	d := &drainage{T: t, record: r, hook: lab.Webhook(t), postgres: lab.Postgres(t)}
	redis := lab.Redis(t)
	settings := []string{"DATABASE_URL=" + d.postgres.URL, "REDIS_URL=" + redis.URL, fmt.Sprintf("KGS_POOL_CAPACITY=%d", d.capacity)}
	d.worker = lab.Worker(t, settings...)
	d.server = lab.Server(t, append(settings, "KGS_WORKER=false", "ALERT_WEBHOOK_URL="+d.hook.URL,
		fmt.Sprintf("KGS_BATCH_MIN=%d", batch), fmt.Sprintf("KGS_BATCH_MAX=%d", batch))...)
	d.worker.Start()
	d.server.Start()
	d.levels, d.load = watchLevels(t, redis.URL), lab.Traffic(t, d.server)
	d.pulse = measure.NewPulse(t, "supply/drain", d.server, 12*time.Second+d.lasts(d.capacity)+d.dry)
	lab.Wait(t, lab.Patience, "the pool is full and the server knows it", func() bool {
		status, err := d.server.TryStatus()
		return err == nil && status.Full()
	})
	return d
}

// lasts is how long so many keys last.
func (p plan) lasts(keys int64) time.Duration {
	return time.Duration(float64(keys) / p.rate * float64(time.Second))
}

// leastFull is how many keys a full pool holds: a worker refills it below nine tenths.
func leastFull(capacity int64) int64 { return capacity - capacity/10 }

// until looks at the pool until enough is true, and sets at to that moment unless it is nil.
func (d *drainage) until(limit time.Duration, what string, at *time.Time, enough func(level) bool) error {
	l, err := d.levels.until(d.Context(), limit, what, enough)
	if err == nil && at != nil {
		*at = l.at
	}
	return err
}

// signalled reports whether an alert with the state came at or after since.
func (d *drainage) signalled(since time.Time, state string) bool {
	_, came := lab.FirstAlert(d.hook.Alerts(), since, state)
	return came
}

// drainAndRefill ends with the first step that fails.
func (d *drainage) drainAndRefill() error {
	for _, step := range []func() error{d.stopWorker, d.observeTenth, d.runDry, d.refill} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// stopWorker stops the worker once the load is steady: the first requests come in a crowd.
func (d *drainage) stopWorker() error {
	steady := time.Now().Add(steadyAfter)
	if err := d.until(patience, "the load is steady", nil, func(l level) bool { return l.at.After(steady) }); err != nil {
		return err
	}
	d.worker.Stop()
	return d.until(patience, "Redis answers", &d.started, func(level) bool { return true })
}

// observeTenth predicts from the first tenth when the pool is empty.
func (d *drainage) observeTenth() error {
	d.pulse.Enter("the first tenth")
	full := keysAt(d.levels.seen, d.started)
	err := d.until(patience+d.lasts(full), "the first tenth is taken", nil, func(l level) bool { return l.keys <= full-full/10 })
	if err == nil {
		d.predicted = predict(since(d.levels.seen, d.started))
		d.unsteady = d.predicted.slope == 0
	}
	return err
}

// runDry waits until the pool is empty, also when nothing can be predicted. The load goes on without a
// pool for a time, and until the service has paged.
func (d *drainage) runDry() error {
	d.pulse.Enter("until the pool is empty")
	if err := d.until(patience+2*d.lasts(d.capacity), "the pool is empty", &d.empty, func(l level) bool { return l.keys == 0 }); err != nil {
		return err
	}
	d.pulse.Enter("without a pool")
	return d.until(patience+d.dry, "the service pages a human", nil, func(l level) bool {
		return l.at.Sub(d.empty) >= d.dry && d.signalled(d.started, "page")
	})
}

// refill starts the worker again, unless this run is the control in which it stays dead.
func (d *drainage) refill() error {
	d.pulse.Enter("the worker is back")
	d.back = time.Now()
	if !slices.Contains(d.Settings(), staysDead) {
		d.worker.Launch()
	}
	err := d.until(patience+refillBound(d.capacity), "the pool is full again", &d.full, func(l level) bool { return l.keys >= leastFull(d.capacity) })
	if err != nil {
		return err
	}
	return d.until(patience, "the service signals ok", nil, func(level) bool { return d.signalled(d.back, "ok") })
}
