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
	fillPatience  = lab.Patience
	alarmPatience = 30 * time.Second
	emptyPatience = 1.5 // of the expected time
	steadyAfter   = 2 * time.Second
)

// drainage is one run of the experiment.
type drainage struct {
	*experiment.T
	*record
	redis          *lab.Database
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
	d := &drainage{T: t, record: r, hook: lab.Webhook(t)}
	postgres := d.start()
	defer d.readBack(postgres)
	d.awaitFull()
	d.pulse.Enter("the worker keeps the pool full")
	environment := measure.Observe()
	d.load.Start(d.rate)
	d.pulse.Follow(d.load.Recorder())
	err := d.drainAndRefill()
	r.seen, r.alerts, r.unfit = d.levels.seen, d.hook.Alerts(), environment.Unfit()
	d.load.Stop()
	r.seconds = d.pulse.Stop()
	if errors.Is(err, errLate) { // the claims judge what did not happen
		r.notes = append(r.notes, "The run ended early: "+err.Error())
		return
	}
	t.Must(err)
}

// start starts the programs. The pool is not full yet.
func (d *drainage) start() (postgres *lab.Database) {
	d.Phase(0, "filling the pool")
	postgres, d.redis = lab.Postgres(d), lab.Redis(d)
	settings := []string{"DATABASE_URL=" + postgres.URL, "REDIS_URL=" + d.redis.URL, fmt.Sprintf("KGS_POOL_CAPACITY=%d", d.capacity)}
	d.worker = lab.Worker(d, settings...)
	d.server = lab.Server(d, append(settings, "KGS_WORKER=false", "ALERT_WEBHOOK_URL="+d.hook.URL,
		fmt.Sprintf("KGS_BATCH_MIN=%d", batch), fmt.Sprintf("KGS_BATCH_MAX=%d", batch))...)
	d.worker.Start()
	d.server.Start()
	d.levels, d.load = watchLevels(d, d.redis.URL), lab.Traffic(d, d.server)
	d.pulse = measure.NewPulse(d.T, "supply/drain", d.server, time.Duration((12+float64(d.capacity)/d.rate)*float64(time.Second))+d.dry)
	return postgres
}

// awaitFull waits until the worker has filled the pool and the server knows it.
func (d *drainage) awaitFull() {
	d.pulse.Enter("filling the pool")
	_, err := d.levels.until(d.Context(), fillPatience+time.Duration(d.capacity)*time.Microsecond, "the pool is full", d.isFull)
	d.Must(err)
	lab.Wait(d, fillPatience, "the server knows that the pool is full", func() bool {
		status, err := d.server.TryStatus()
		return err == nil && status.State == "ok"
	})
}

// leastFull is how many keys a full pool holds: a worker refills it below nine tenths.
func leastFull(capacity int64) int64 { return capacity - capacity/10 }

func (d *drainage) isFull(l level) bool { return l.keys >= leastFull(d.capacity) }

// await looks at the pool until something else is true.
func (d *drainage) await(what string, ok func() bool) error {
	_, err := d.levels.until(d.Context(), alarmPatience, what, func(level) bool { return ok() })
	return err
}

// pass looks at the pool for a time.
func (d *drainage) pass(length time.Duration) error {
	began := time.Now()
	return d.await("time passes", func() bool { return time.Since(began) >= length })
}

// signalled reports whether an alert with the state came at or after since.
func (d *drainage) signalled(since time.Time, state string) func() bool {
	return func() bool { _, came := lab.FirstAlert(d.hook.Alerts(), since, state); return came }
}

func (d *drainage) drainAndRefill() error {
	if err := d.stopWorker(); err != nil {
		return err
	}
	if err := d.drain(); err != nil {
		return err
	}
	d.pulse.Enter("without a pool")
	if err := d.pass(d.dry); err != nil {
		return err
	}
	if err := d.await("the service pages a human", d.signalled(d.started, "page")); err != nil {
		return err
	}
	return d.refill()
}

// stopWorker stops the worker once the load is steady: the first requests come in a crowd.
func (d *drainage) stopWorker() error {
	if err := d.pass(steadyAfter); err != nil {
		return err
	}
	d.worker.Stop()
	d.started = time.Now()
	return nil
}

// drain predicts from the first tenth when the pool is empty, and waits for that moment also when
// nothing can be predicted.
func (d *drainage) drain() error {
	d.pulse.Enter("the first tenth")
	full, err := d.levels.until(d.Context(), alarmPatience, "Redis answers", func(level) bool { return true })
	if err != nil {
		return err
	}
	d.started = full.at
	lasts := time.Duration(float64(full.keys) / d.rate * float64(time.Second))
	if _, err = d.levels.until(d.Context(), alarmPatience+lasts, "the first tenth is taken",
		func(now level) bool { return now.keys <= full.keys-full.keys/10 }); err != nil {
		return err
	}
	var known bool
	d.predicted, known = predict(since(d.levels.seen, d.started))
	d.unsteady = !known
	expected := d.started.Add(lasts)
	if known {
		expected = d.predicted.empty()
	}
	d.pulse.Enter("the pool is expected to be empty at %.1f s", expected.Sub(d.started).Seconds())
	empty, err := d.levels.until(d.Context(), alarmPatience+time.Duration(emptyPatience*float64(time.Until(expected))),
		"the pool is empty", func(now level) bool { return now.keys == 0 })
	d.empty = empty.at
	return err
}

// refill starts the worker again, unless this run is the control in which it stays dead.
func (d *drainage) refill() error {
	d.pulse.Enter("the worker is back")
	d.back = time.Now()
	if !slices.Contains(d.Settings(), staysDead) {
		d.worker.Launch()
	}
	full, err := d.levels.until(d.Context(), refillBound(d.capacity)+alarmPatience, "the pool is full again", d.isFull)
	if err != nil {
		return err
	}
	d.full = full.at
	return d.await("the service signals ok", d.signalled(d.back, "ok"))
}

// readBack reads every link back, also after an early end of the run.
func (d *drainage) readBack(postgres *lab.Database) {
	d.Phase(0.99, "reading every link back")
	d.links = measure.ReadBack(d, d.server, lab.Census(postgres.URL), d.load)
	d.notes = append(append(d.notes, d.links.Reports...), measure.FailureNotes(d.load.Entries())...)
}
