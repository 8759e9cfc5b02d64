package fault

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"keypool/loadtest/lab"
)

// dryRows returns the fault rows in which the worker stops filling the pool.
func dryRows() []row {
	claims := theLinks(
		observed("restart signalled", "While the pool holds less than 20 % of its capacity, the server signals `restart` or `page`."),
		observed("page signalled", "While the pool holds less than 10 % of its capacity, the server signals `page`."),
		observed("webhook alerts", "The webhook accepts `restart` once and then `page` once, although it refuses the first attempt to deliver each alert."),
		observed("fallback takes over", "When the pool is empty, the fallback makes codes."),
		observed(recovers, "A new worker fills the pool."),
		observed("ok signalled", "When the pool is full again, the last alert that the webhook has accepted is `ok`."),
		availableTo(99.5),
	)
	useless := append(slices.Clone(claims),
		observed("exit status", "The process of the worker restarts the worker several times, but the worker does not fill the pool. Within two minutes, the process ends "+
			"with a status other than 0, so that a service manager starts the process again."))
	control := without("restart signalled", "deadman")
	return []row{
		{
			Name: "fault/13", Title: "pool runs dry after its worker is killed", Summary: "The only worker is killed with SIGKILL and is not restarted.",
			Run: inject(func(r *run) { runDry(r, killed) }), Claims: claims, Controls: control,
		},
		{
			Name: "fault/14a", Title: "worker cannot connect to Redis", Summary: "A proxy between the worker and Redis resets every connection.",
			Run: inject(func(r *run) { runDry(r, cannotConnect) }), Claims: useless, Controls: control,
		},
		{
			Name: "fault/14b", Title: "Redis rejects the pushes of the worker", Summary: "The worker's Redis user loses the right to RPUSH.",
			Run: inject(func(r *run) { runDry(r, cannotPush) }), Claims: useless, Controls: control,
		},
		{
			Name: "fault/14c", Title: "worker runs but pushes no keys", Failpoints: true, Summary: "The worker skips the step that pushes a range to the pool.",
			Run: inject(func(r *run) { runDry(r, skipsPushes) }), Claims: useless, Controls: control,
		},
	}
}

// The capacity of the pool in keys, and the rate in keys per second. At this rate, the pool is empty in less than a
// minute, and the number of keys falls from 20 % to 10 % of the capacity in 5 s. In these 5 s, the dead man's switch
// checks the pool at least once.
const (
	dryCapacity = 5000
	dryRate     = 100
)

// dry is a run with a server whose pool becomes empty, and with the receiver of the server's alerts.
type dry struct {
	*run
	hook   *lab.Hook
	server *lab.Program
	load   *lab.Load
}

// runDry calls fault, waits until the pool is empty, and fills the pool with a new worker. The
// function fault fills the pool, starts the load and injects the fault. If a worker still runs but
// cannot fill the pool, fault returns this worker. If no worker runs, fault returns nil.
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
	d.becomes("fallback takes over", either(useless == nil, "the check of the alerts", "the end of the worker's process"), "the fallback makes codes", func() bool { return random(d.server) > 0 })
	lab.Pause(d, d.Lasting(20*time.Second))
	worker := d.worker()
	worker.Start()
	r.refills(d.server, "the new worker was ready")
	d.becomes("ok signalled", "the pool was full", "the last alert at the webhook is ok", func() bool {
		states := d.hook.States() // while the pool fills, the server may signal `restart` before `ok`
		return len(states) > 0 && states[len(states)-1] == "ok"
	})
	d.serve(d.load)
	worker.Stop()
	d.end(d.server)
}

// fill starts a worker with the given settings, waits until the worker has filled the pool, and then starts
// a load that takes keys from the pool.
func (d *dry) fill(settings ...string) (worker *lab.Program) {
	worker = d.worker(settings...)
	worker.Start()
	d.awaitFull(d.server)
	d.load.Start(dryRate)
	return worker
}

// sawAlarms records which signals the server sends until the pool is empty.
func (d *dry) sawAlarms() {
	lab.Wait(d, 3*patient, "the pool is empty", func() bool {
		s := d.server.Status()
		if s.PoolKeys == nil {
			return false
		}
		share := float64(*s.PoolKeys) / dryCapacity
		if share < 0.2 {
			d.must("restart signalled", s.State == "restart" || s.State == "page",
				"the pool held %.1f %% of its capacity, and the state was %s; below 20 %%, the state must be `restart` or `page`", 100*share, s.State)
		}
		if share < 0.1 {
			d.must("page signalled", s.State == "page",
				"the pool held %.1f %% of its capacity, and the state was %s; below 10 %%, the state must be `page`", 100*share, s.State)
		}
		return *s.PoolKeys == 0
	})
	lab.Happens(d, patient, func() bool { return len(d.hook.States()) >= 2 })
	states := d.hook.States()
	d.saw("webhook alerts", slices.Equal(states, []string{"restart", "page"}) && d.hook.Malformed() == 0,
		"the webhook accepted these signals in this order: %s; it received %d malformed requests", cmp.Or(strings.Join(states, ", "), "none"), d.hook.Malformed())
}

// sawExit waits until the process of a worker that cannot fill the pool ends. The dead man's switch in this
// process must end the process when restarts of the worker inside the process do not help.
func (d *dry) sawExit(useless *lab.Program) {
	const limit = 2 * time.Minute // enough for three restarts with growing pauses
	if !lab.Happens(d, limit, useless.Ended) {
		d.Refute("exit status", "the worker still ran after %v", limit)
	}
	status := useless.Exit(patient)
	d.saw("exit status", status > 0, "the worker ended with status %d", status)
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

func skipsPushes(d *dry) *lab.Program {
	d.fill().Stop()
	worker := d.worker("KEYPOOL_FAILPOINTS=ship:begin=skip")
	worker.Start()
	return worker
}
