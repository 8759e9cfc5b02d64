// Package outage kills the Redis of twenty servers under load and starts it again empty. It
// observes how local keys, the random fallback and the next epoch carry the creations.
//
// Vocabulary: a random code is one that the fallback drew. Its number, which the permutation of the
// codes reveals, was never reserved from the ledger. A look is what all servers report at one moment.
//
// Invariant: where a code came from is decided by the code itself, not by what a server reports.
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

// plan is how large a run is, and how long its phases take.
type plan struct {
	servers int
	batch   int           // keys in a batch of a server
	rate    float64       // creations per second on all servers
	calm    time.Duration // before Redis is killed
	down    time.Duration // of Redis
	later   time.Duration // after Redis is back, at least
	small   bool          // too short to judge times
}

const (
	usualRate = 1000.0
	lookEvery = 250 * time.Millisecond
	// dry is how long Redis stays down, at least, after the local keys are used up.
	dry = 3 * time.Second
	// settled is how long the load goes on, at least, after all servers take keys from Redis again.
	settled  = time.Second
	patience = 30 * time.Second // for the servers to reach a state
)

// choose returns the plan of a run: the small one at a scale below 1.
func choose(o experiment.Options) plan {
	if o.Scale < 1 {
		return plan{servers: 4, batch: 50, rate: 200, calm: 500 * time.Millisecond, down: 5 * time.Second, later: 2 * time.Second, small: true}
	}
	p := plan{servers: 20, batch: 100, rate: cmp.Or(o.Rate, usualRate), calm: 3 * time.Second, down: 7 * time.Second, later: 6 * time.Second}
	if o.Full {
		p.calm, p.down, p.later = 30*time.Second, 40*time.Second, 30*time.Second
	}
	// A server holds a batch and a spare one, which last long at a low rate.
	local := time.Duration(float64(2*p.servers*p.batch) / p.rate * float64(time.Second))
	p.down = max(p.down, local+dry)
	return p
}

// record is what a run observes.
type record struct {
	plan
	whole               bool               // the run came to its end, and the members below are complete
	killed, started     time.Time          // Redis was killed, and was started again
	back                time.Time          // Redis answered again
	atKill              look               // right after the kill, when no key reaches the servers any more
	before, lost, after ledger             // at first, while Redis is down, and at the end
	looks               []lab.Sample[look] // of the whole run
	creations           [][]creation       // by server, in the order of their intents
	reported            float64            // random keys taken, by the metrics of the servers

	links *loadtest.Verdict
	notes []string
}

// redis is the experiment outage/redis.
func redis() *experiment.Experiment {
	return experiment.Define(experiment.Definition[record]{
		Name: "outage/redis", Title: "Redis is killed under twenty servers",
		Summary: "Twenty servers create 1000 links per second in all, each from a batch of 100 keys and a spare one. Redis is killed with SIGKILL. " +
			"Local keys then serve the creations, and after them the random fallback. Redis comes back empty, so the worker begins a new epoch. No client notices.",
		Suites: []experiment.Suite{experiment.Change, experiment.Nightly}, Alone: true,
		Run: runOutage, Claims: claims(), Show: show,
		Controls: []experiment.Control{
			{Without: []string{"store"}, Refutes: measure.NoLostLink},
			{Without: []string{"once", "conflict"}, Refutes: measure.NoCodeTwice, AlsoRefutes: []string{measure.NoWrongLink}},
			{Settings: []string{"FALLBACK=none"}, Refutes: takeover, AlsoRefutes: []string{measure.NoFailedCreation}},
			{Settings: []string{"KEYPOOL_FAILPOINTS=epoch:opened=kill:2"}, Refutes: recovers}, // the worker dies in its second epoch
		},
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
	pulse := measure.NewPulse(t, "outage/redis", f.servers[0], 10*time.Second+r.calm+r.down+r.later)
	pulse.Enter("all servers take keys from Redis; the figures are those of one server")
	r.before = f.ledger()
	looks := lab.Watch(t, lookEvery, f.look)
	defer f.stop()
	f.start(r.rate)
	pulse.Follow(f.loads[0].Recorder())
	lab.Pause(t, r.calm)
	r.strike(t, f, pulse)
	f.stop()
	r.looks = looks.Stop()
	r.after, r.creations, r.reported = f.ledger(), f.creations(), f.reported()
	r.whole = true
}

// strike kills Redis and starts it again after a while.
func (r *record) strike(t *experiment.T, f *fleet, pulse *measure.Pulse) {
	pulse.Enter("Redis is killed")
	r.killed = time.Now()
	f.redis.Kill()
	lab.Wait(t, patience, "all servers answer", func() bool {
		var err error
		r.atKill, err = f.look(t.Context())
		return err == nil
	})
	lab.Pause(t, r.down-time.Since(r.killed))
	r.lost = f.ledger()
	pulse.Enter("Redis is back")
	r.started = time.Now()
	f.redis.Restart()
	r.back = time.Now()
	if !lab.Happens(t, patience, func() bool { l, err := f.look(t.Context()); return err == nil && l.sound(r.servers) }) {
		r.notes = append(r.notes, fmt.Sprintf("Not all servers took keys from Redis again within %v.", patience))
	}
	lab.Pause(t, max(r.later-time.Since(r.back), settled))
}
