// Package outage kills the Redis of several servers under load and starts it again without data. It
// checks that creations succeed in the meantime: first with local keys, then with the random
// fallback, and finally with keys of the next epoch.
//
// Vocabulary: local keys are the keys in the batches of a server. A random code is a code that the
// fallback made. A look is the status of all servers at one time.
//
// Invariant: the source of a code is derived from the code itself, not from the reports of a server.
// The package knows the secret of the permutation, so it can compute the number that a code stands for.
// The number of a key from a batch is reserved in the ledger. A random code stands for a reserved
// number with a probability of less than 1 in 100,000.
package outage

import (
	"cmp"
	"fmt"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
)

// Experiments returns the experiments of the package.
func Experiments() []*experiment.Experiment { return []*experiment.Experiment{redis()} }

// plan is the size of a run and the duration of its phases.
type plan struct {
	servers int
	batch   int           // keys in a batch of a server
	rate    float64       // creations per second on all servers
	calm    time.Duration // duration of the load before Redis is killed
	down    time.Duration // time from the kill to the restart of Redis
	later   time.Duration // least duration of the load after Redis is available again
	small   bool          // the run is too short to judge times
}

const (
	usualRate = 1000.0
	lookEvery = 250 * time.Millisecond
	// dry is the least time for which Redis stays down after the local keys are used up.
	dry = 3 * time.Second
	// settled is the least time for which the load continues after all servers take keys from Redis again.
	settled  = time.Second
	patience = 30 * time.Second // time limit of each wait for a state of the servers after the kill
)

// choose returns the plan of a run. The plan is small if the scale is below 1.
func choose(o experiment.Options) plan {
	if o.Scale < 1 {
		return plan{servers: 4, batch: 50, rate: 200, calm: 500 * time.Millisecond, down: 5 * time.Second, later: 2 * time.Second, small: true}
	}
	p := plan{servers: 20, batch: 100, rate: cmp.Or(o.Rate, usualRate), calm: 3 * time.Second, down: 7 * time.Second, later: 6 * time.Second}
	if o.Full {
		p.calm, p.down, p.later = 30*time.Second, 40*time.Second, 30*time.Second
	}
	// A server holds two batches. At a low rate, they last so long that Redis must stay down for longer than usual.
	local := time.Duration(float64(2*p.servers*p.batch) / p.rate * float64(time.Second))
	p.down = max(p.down, local+dry)
	return p
}

// record holds what a run observes.
type record struct {
	plan
	whole               bool               // the run was complete, and the fields below are valid
	killed, started     time.Time          // when Redis was killed, and when it was started again
	back                time.Time          // when Redis answered again
	atKill              look               // the look right after the kill, when the servers get no more keys
	before, lost, after ledger             // the ledger at the start, while Redis is down, and at the end
	looks               []lab.Sample[look] // looks during the whole run
	creations           [][]creation       // creations of each server, in the order in which the client sent them
	simulated           time.Duration      // mean simulated time that the local keys of a server last
	reported            float64            // number of random codes according to the metrics of the servers

	links *loadtest.Verdict
	notes []string
}

// redis returns the experiment outage/redis.
func redis() *experiment.Experiment {
	return experiment.Define(experiment.Definition[record]{
		Name: "outage/redis", Title: "Redis is killed while several servers create links",
		Summary: "Several servers create links at a steady rate, and each server holds two batches of keys. At scale 1, there are twenty servers, a batch has 100 keys, " +
			"and the rate is 1000 creations per second in all (unless the flag --rate sets another rate). Redis is killed with SIGKILL. " +
			"The local keys then serve the creations. When they are used up, the random fallback serves the creations. " +
			"Redis is started again without data, so the worker begins a new epoch and fills the pool again.",
		Suites: []experiment.Suite{experiment.Change, experiment.Nightly}, Alone: true,
		Run: runOutage, Claims: claims(), Show: show,
		Controls: append(measure.LinkControls(),
			experiment.Control{Settings: []string{"FALLBACK=none"}, Refutes: takeover, AlsoRefutes: []string{measure.NoFailedCreation}},
			experiment.Control{Settings: []string{"KEYPOOL_FAILPOINTS=epoch:opened=kill:2"}, Refutes: recovers}, // the worker kills itself after it has opened its second epoch
		),
	})
}

func runOutage(t *experiment.T, r *record) {
	r.plan = choose(t.Options)
	t.Phase(0, "starting %d servers", r.servers)
	f := newFleet(t, r.plan)
	defer func() {
		t.Phase(0.99, "reading every link back")
		links, notes := measure.ReadBack(t, f.servers[0], lab.Census(f.postgres.URL), f.loads...)
		r.links, r.notes = links, append(r.notes, notes...)
	}()
	t.Phase(0.3, "all servers take keys from Redis")
	r.before = f.ledger()
	looks := lab.Watch(t, lookEvery, f.look)
	defer f.stop()
	f.start(r.rate)
	lab.Pause(t, r.calm)
	r.strike(t, f)
	f.stop()
	r.looks = looks.Stop()
	r.after, r.creations, r.reported = f.ledger(), f.creations(), f.reported()
	t.Must(r.simulate(t.Context()))
	r.whole = true
}

// strike kills Redis and starts it again after the time that the plan states.
func (r *record) strike(t *experiment.T, f *fleet) {
	t.Phase(0.5, "Redis is killed")
	r.killed = time.Now()
	f.redis.Kill()
	lab.Wait(t, patience, "all servers answer", func() bool {
		var err error
		r.atKill, err = f.look(t.Context())
		return err == nil
	})
	lab.Pause(t, r.down-time.Since(r.killed))
	r.lost = f.ledger()
	t.Phase(0.8, "Redis is started again")
	r.started = time.Now()
	f.redis.Restart()
	r.back = time.Now()
	if !lab.Happens(t, patience, func() bool { l, err := f.look(t.Context()); return err == nil && l.sound(r.servers) }) {
		r.notes = append(r.notes, fmt.Sprintf("Some servers did not take keys from Redis again within %v.", patience))
	}
	lab.Pause(t, max(r.later-time.Since(r.back), settled))
}
