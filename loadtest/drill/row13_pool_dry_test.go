//go:build drill

package drill

import (
	"slices"
	"time"

	"keypool/internal/testenv"
)

// The pool and the rate, in keys per second, at which it runs dry in less than a minute,
// and yet not past both levels of the switch between two of its looks.
const (
	dryCapacity = 5000
	dryRate     = 100
)

// dry is a server whose pool runs dry, with the worker that ought to fill it and an
// ear for the alerts.
type dry struct {
	d        *drill
	postgres *testenv.Server
	redis    *testenv.Server
	settings []string
	hook     *hook
	server   *service
	load     *traffic
}

// newDry starts a server that has no worker.
func newDry(d *drill) *dry {
	d.Helper()
	f := &dry{d: d, postgres: testenv.StartPostgres(d), redis: testenv.StartRedis(d), hook: newHook(d)}
	f.settings = []string{"DATABASE_URL=" + f.postgres.URL, "REDIS_URL=" + f.redis.URL, "KGS_POOL_CAPACITY=5000"}
	f.server = newServer(d, append(f.settings, "KGS_WORKER=false", "KGS_BATCH_MAX=100", "ALERT_WEBHOOK_URL="+f.hook.url)...)
	f.server.start()
	f.load = newTraffic(d, f.server)
	return f
}

// fill starts a worker, with further settings, waits until it has filled the pool, and
// begins to take from that.
func (f *dry) fill(settings ...string) (worker *service) {
	f.d.Helper()
	worker = newWorker(f.d, append(f.settings, settings...)...)
	worker.start()
	await(f.d, patient, "the pool is full", func() bool { return f.server.status().full() })
	f.load.start(dryRate)
	return worker
}

// mustAlarm watches the pool run dry: below a fifth the worker's restart must have been
// signalled, below a tenth a human paged, and the webhook must have been told both.
func (f *dry) mustAlarm() {
	f.d.Helper()
	await(f.d, 3*patient, "the pool is dry", func() bool {
		st := f.server.status()
		if st.Pool == nil {
			return false
		}
		share := float64(*st.Pool) / dryCapacity
		if share < 0.2 && st.State != "restart" && st.State != "page" {
			f.d.Fatalf("no alarm: the state is %s with %.0f %% in the pool", st.State, 100*share)
		}
		if share < 0.1 && st.State != "page" {
			f.d.Fatalf("nobody is paged: the state is %s with %.0f %% in the pool", st.State, 100*share)
		}
		return *st.Pool == 0
	})
	f.mustTell("restart", "page")
}

// mustTell waits until the webhook has taken just these alerts.
func (f *dry) mustTell(states ...string) {
	f.d.Helper()
	await(f.d, patient, "the webhook is told", func() bool { return len(f.hook.states()) >= len(states) })
	if got := f.hook.states(); !slices.Equal(got, states) {
		f.d.Errorf("no alarm as it should be: the webhook was told %v, want %v", got, states)
	}
}

// end has the load run on for a time by the fallback, starts a worker, waits for the
// all-clear and judges.
func (f *dry) end() {
	f.d.Helper()
	await(f.d, patient, "the fallback gives keys", func() bool { return f.server.metric(fromRandom) > 0 })
	pass(f.d, f.d.lasting(20*time.Second))
	worker := newWorker(f.d, f.settings...)
	worker.start()
	await(f.d, patient, "the pool is full again", func() bool { return f.server.status().full() })
	await(f.d, patient, "the webhook is told that all is well", func() bool {
		told := f.hook.states() // the way up may lead through restart
		return told[len(told)-1] == "ok"
	})
	mustBeAvailable(f.d, f.load, 99.5)
	worker.stop()
	end(f.d, postgresCensus(f.postgres.URL), []*service{f.server}, f.load)
}

// The only worker is killed and nobody starts another.
func poolDry(d *drill) {
	f := newDry(d)
	f.fill().kill()
	d.struck(1)
	f.mustAlarm()
	f.end()
}
