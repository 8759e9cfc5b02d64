package fault

import (
	"fmt"
	"slices"
	"time"

	"keypool/loadtest/lab"
)

// dryRows are the faults in which the worker fills no pool.
func dryRows() []row {
	claims := theLinks(
		observed("restart", "Below 20 % of the pool the server signals a restart of the worker."),
		observed("page", "Below 10 % of the pool the server pages a human."),
		observed("webhook", "The webhook receives `restart` and then `page`, once each, also when it refuses the first try."),
		observed("fallback", "The fallback makes codes when the pool is dry."),
		observed(recovers, "A new worker fills the pool."),
		observed("all-clear", "The last alert that the webhook receives is `ok`, when the pool is full again."),
		availableTo(99.5),
	)
	useless := append(slices.Clone(claims),
		observed("exit status", "The worker that fills nothing restarts itself in vain and then ends, within two minutes, "+
			"with a status that makes its supervisor start it again."))
	control := without("restart", "deadman")
	return []row{
		{
			Name: "fault/13", Title: "pool dry and worker dead", Summary: "The only worker is killed with SIGKILL and not started again.",
			Run: inject(func(r *run) { runDry(r, killed) }), Claims: claims, Controls: control,
		},
		{
			Name: "fault/14a", Title: "worker cannot connect", Summary: "The worker's way to Redis resets every connection.",
			Run: inject(func(r *run) { runDry(r, cannotConnect) }), Claims: useless, Controls: control,
		},
		{
			Name: "fault/14b", Title: "worker's pushes fail", Summary: "The worker's Redis user loses the right to RPUSH.",
			Run: inject(func(r *run) { runDry(r, cannotPush) }), Claims: useless, Controls: control,
		},
		{
			Name: "fault/14c", Title: "worker spins", Failpoints: true, Summary: "The worker skips the step that ships a range.",
			Run: inject(func(r *run) { runDry(r, spins) }), Claims: useless, Controls: control,
		},
	}
}

// The pool and the rate, in keys per second, at which it runs dry in less than a minute,
// and yet not past both levels of the dead man's switch between two of its looks.
const (
	dryCapacity = 5000
	dryRate     = 100
)

// dry is a server whose pool runs dry, and the receiver of its alerts.
type dry struct {
	*run
	hook   *lab.Hook
	server *lab.Program
	load   *lab.Load
}

// runDry lets a pool run dry after fault, which returns the worker that is alive and fills nothing, nil
// for none. The pool is filled again by another worker.
func runDry(r *run, fault func(*dry) (useless *lab.Program)) {
	d := &dry{run: r, hook: lab.Webhook(r)}
	d.hook.RefuseEveryOther()
	r.databases(fmt.Sprintf("KGS_POOL_CAPACITY=%d", dryCapacity))
	d.server = r.started(noWorker, "KGS_BATCH_MAX=100", "ALERT_WEBHOOK_URL="+d.hook.URL)
	d.load = r.traffic(d.server)
	useless := fault(d)
	r.strike(1)
	d.sawAlarms()
	if useless != nil {
		d.sawExit(useless)
	}
	d.becomes("fallback", "the fallback makes codes", func() bool { return random(d.server) > 0 })
	lab.Pause(d, d.Lasting(20*time.Second))
	worker := d.worker()
	worker.Start()
	r.refills(d.server)
	d.becomes("all-clear", "the webhook has received ok", func() bool {
		states := d.hook.States() // the way up may lead through restart
		return len(states) > 0 && states[len(states)-1] == "ok"
	})
	d.serve(d.load)
	worker.Stop()
	d.end(d.server)
}

// fill starts a worker, with further settings, waits until it has filled the pool, and
// begins to take from the pool.
func (d *dry) fill(settings ...string) (worker *lab.Program) {
	worker = d.worker(settings...)
	worker.Start()
	d.awaitFull(d.server)
	d.load.Start(dryRate)
	return worker
}

// sawAlarms watches the pool run dry.
func (d *dry) sawAlarms() {
	lab.Wait(d, 3*patient, "the pool is dry", func() bool {
		s := d.server.Status()
		if s.PoolKeys == nil {
			return false
		}
		share := float64(*s.PoolKeys) / dryCapacity
		if share < 0.2 {
			d.must("restart", s.State == "restart" || s.State == "page", "the state is %s with %.1f %% in the pool", s.State, 100*share)
		}
		if share < 0.1 {
			d.must("page", s.State == "page", "the state is %s with %.1f %% in the pool", s.State, 100*share)
		}
		return *s.PoolKeys == 0
	})
	lab.Happens(d, patient, func() bool { return len(d.hook.States()) >= 2 })
	states := d.hook.States()
	d.saw("webhook", slices.Equal(states, []string{"restart", "page"}) && d.hook.Malformed() == 0,
		"it received %v and %d malformed requests", states, d.hook.Malformed())
}

// sawExit waits for the end of a worker that fills nothing. Its own dead man's switch must notice too, and
// end it when new workers in the same process do not help.
func (d *dry) sawExit(useless *lab.Program) {
	const inVain = 2 * time.Minute // three restarts with growing gaps
	ended := lab.Happens(d, inVain, useless.Ended)
	d.must("exit status", ended, "the worker ended within %v: %t", inVain, ended)
	status := useless.Exit(patient)
	d.saw("exit status", status > 0, "it ended with status %d", status)
}

func killed(d *dry) *lab.Program {
	d.fill().Kill()
	return nil
}

func cannotConnect(d *dry) *lab.Program {
	proxy := lab.Proxy(d, d.redis.Addr)
	worker := d.fill("REDIS_URL=redis://" + proxy.Addr)
	proxy.Away()
	return worker
}

func cannotPush(d *dry) *lab.Program {
	client := lab.RedisClient(d, d.redis.URL)
	allow := func(rules ...any) {
		d.Must(client.Do(d.Context(), append([]any{"ACL", "SETUSER", "worker"}, rules...)...).Err())
	}
	allow("on", ">secret", "~*", "&*", "+@all")
	worker := d.fill("REDIS_URL=redis://worker:secret@" + d.redis.Addr)
	allow("-rpush")
	return worker
}

func spins(d *dry) *lab.Program {
	d.fill().Stop()
	worker := d.worker("KEYPOOL_FAILPOINTS=ship:begin=skip")
	worker.Start()
	return worker
}
