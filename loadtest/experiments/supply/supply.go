// Package supply stops the only worker of a pool under load: it predicts when the pool runs dry,
// and observes that moment, the alarms before it, the creations after it and the refill.
//
// Vocabulary: a level is the number of keys in the pool at one moment, as Redis counts it. A
// decline is a line through the levels, from which the moment is predicted at which the pool is
// empty.
//
// Invariant: a prediction comes from the first tenth of a drain only.
package supply

import (
	"cmp"
	"math"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
)

// Experiments returns the experiments of the package.
func Experiments() []*experiment.Experiment { return []*experiment.Experiment{drain()} }

// A pool without its worker lasts eleven seconds, or 500 with --full. The dead man's switch looks once a
// second: when a pool lasts ten seconds or less, the switch may not see it between 20 and 10 percent.
// When a pool, or the fifth of a larger one, lasts from twelve seconds to a minute, the switch raises
// an alarm after ten seconds in which no key arrived, before the levels are reached.
const (
	usualSeconds = 11.0
	fullSeconds  = 500.0
	usualRate    = 1000.0 // creations per second
	fullRate     = 2000.0
	batch        = 50 // keys in a batch of the server
)

// plan is how much is drained how fast.
type plan struct {
	capacity int64
	rate     float64       // creations per second
	dry      time.Duration // how long creations go on without a pool
	small    bool          // too short to judge times
}

// choose returns the plan of a run: the small one at a scale below 1.
func choose(t *experiment.T) plan {
	if t.Scale < 1 {
		return plan{capacity: 1000, rate: 250, dry: 1500 * time.Millisecond, small: true}
	}
	rate, seconds, dry := cmp.Or(t.Rate, usualRate), usualSeconds, 3*time.Second
	if t.Full {
		rate, seconds, dry = cmp.Or(t.Rate, fullRate), fullSeconds, 30*time.Second
	}
	if rate < slowest() {
		t.Fatalf("--rate: got %g, the experiment supply/drain takes at least %g", rate, slowest())
	}
	return plan{capacity: int64(rate * seconds), rate: rate, dry: dry}
}

// slowest is the least rate. Below it a batch, the last of which may be next to empty, is a greater
// part of the pool than the tolerance of the prediction. The worker may be stopped right before it
// refills, when the pool holds nine tenths.
func slowest() float64 { return math.Ceil(batch / (emptyWithin * 0.9 * usualSeconds)) }

// record is what a run observes. The zero time stands for a moment that did not come.
type record struct {
	plan
	seen      []level
	alerts    []lab.Alert
	started   time.Time // the worker was stopped
	predicted decline   // from the first tenth of the drain
	unsteady  bool      // the first tenth allows no prediction
	empty     time.Time // the pool was
	back      time.Time // the worker was started again
	full      time.Time // the pool was, after that
	links     *loadtest.Verdict
	seconds   []lab.Sample[lab.Second]
	notes     []string
	filled    *filled // only with --full
}

// staysDead is a setting that only this package reads: the worker is not started again. It is for
// a control.
const staysDead = "EXPERIMENT_WORKER=stays dead"

// drain is the experiment supply/drain.
func drain() *experiment.Experiment {
	return experiment.Define(experiment.Definition[record]{
		Name: "supply/drain", Title: "A pool runs dry",
		Summary: "The only worker that refills the pool is stopped under load. The first tenth of the drain predicts when the pool is empty. " +
			"The dead man's switch raises an alarm at 20 and at 10 percent, and creations go on without a pool. Then the worker starts again.",
		Suites: []experiment.Suite{experiment.Change, experiment.Nightly, experiment.Full}, Alone: true,
		Run: runDrain, Claims: claims(),
		Controls: []experiment.Control{
			{Without: []string{"store"}, Refutes: measure.NoLostLink},
			{Without: []string{"once", "conflict"}, Refutes: measure.NoCodeTwice, AlsoRefutes: []string{measure.NoWrongLink}},
			{Without: []string{"deadman"}, Refutes: alarmOrder},
			{Settings: []string{staysDead}, Refutes: refilled},
		},
		Show: show,
	})
}
