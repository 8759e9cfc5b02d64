// Package supply stops the only worker of a pool while links are created. It predicts when the pool
// will be empty and compares the prediction with the observation. It also observes the signals of the
// dead man's switch, the creations without a pool, and the refill.
//
// Vocabulary: a level is the number of keys in the pool at one time, as Redis counts them. A look is
// one reading of the level by this package. A check is one reading of the level by the dead man's
// switch. The switch has two thresholds: it signals `restart` below a fifth of the capacity, and
// `page` below a tenth. A decline is a line that is fitted to levels and predicts when the pool is
// empty.
//
// Invariant: a prediction uses only the first tenth of a drain.
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

// At scale 1, a pool without its worker lasts eleven seconds, or 500 seconds with --full. Two ranges of durations are unsuitable:
//
//   - The dead man's switch checks the pool once a second. If a pool lasts ten seconds or less, the level may
//     fall from above 20 percent to below 10 percent between two checks.
//   - After ten seconds without new keys, the switch also signals `restart` if the runway is less than a minute,
//     and `page` if the runway is less than half a minute. The runway is the time until the pool is empty. If a
//     pool lasts from twelve seconds to five minutes, such a signal can come before the pool falls below the
//     threshold for this signal.
const (
	usualSeconds = 11.0
	fullSeconds  = 500.0
	usualRate    = 1000.0 // creations per second
	fullRate     = 2000.0
	batch        = 50 // keys in a batch of the server
)

// plan is the size of a run.
type plan struct {
	capacity int64
	rate     float64       // creations per second
	dry      time.Duration // how long creations continue after the pool is empty
	small    bool          // the run is too short to judge times
}

// choose returns the plan of a run. The plan is small if the scale is below 1.
func choose(t *experiment.T) plan {
	if t.Scale < 1 {
		return plan{capacity: 1000, rate: 250, dry: 1500 * time.Millisecond, small: true}
	}
	rate, seconds, dry := cmp.Or(t.Rate, usualRate), usualSeconds, 3*time.Second
	if t.Full {
		rate, seconds, dry = cmp.Or(t.Rate, fullRate), fullSeconds, 30*time.Second
	}
	if rate < slowest() {
		t.Fatalf("--rate is %g, but the experiment supply/drain needs at least %g creations per second", rate, slowest())
	}
	return plan{capacity: int64(rate * seconds), rate: rate, dry: dry}
}

// slowest returns the least rate that the experiment accepts. The last batch that a server takes may hold any
// number of keys up to a full batch. So the observed end of a drain may differ from the prediction by up to
// the time in which one batch is used. At a lower rate, the pool is smaller, and this difference can exceed
// the tolerance. When the worker is stopped, the pool may hold only nine tenths of its capacity, because the
// worker does not refill a pool that holds more.
func slowest() float64 { return math.Ceil(batch / (emptyWithin * 0.9 * usualSeconds)) }

// record holds what a run observes. A zero time means that the event did not happen.
type record struct {
	plan
	seen      []level
	alerts    []lab.Alert
	started   time.Time     // when the worker was stopped
	predicted decline       // prediction from the first tenth of the drain
	unsteady  bool          // the first tenth allows no prediction, because the number of keys did not fall steadily
	simulated time.Duration // simulated time from the stop of the worker until the pool is empty
	empty     time.Time     // when the pool was empty
	back      time.Time     // when the worker was started again
	full      time.Time     // when the pool was full again
	links     *loadtest.Verdict
	statuses  []lab.Sample[lab.Status] // answers of /status
	notes     []string
	filled    *filled // results of the large pool; nil without --full
}

// staysDead is a setting of a control, which only this package reads. With this setting, a run does not start the
// worker again.
const staysDead = "EXPERIMENT_WORKER=stays dead"

// drain returns the experiment supply/drain.
func drain() *experiment.Experiment {
	return experiment.Define(experiment.Definition[record]{
		Name: "supply/drain", Title: "A pool runs dry",
		Summary: "The only worker that refills the pool is stopped under load. The first tenth of the drain predicts when the pool is empty. " +
			"The dead man's switch watches the number of keys in the pool. It signals `restart` below 20 percent and `page` below 10 percent. " +
			"Creations continue without a pool. Then the worker is started again.",
		Suites: []experiment.Suite{experiment.Change, experiment.Nightly, experiment.Full}, Alone: true,
		Run: runDrain, Claims: claims(),
		Controls: append(measure.LinkControls(),
			experiment.Control{Without: []string{"deadman"}, Refutes: alarmOrder},
			experiment.Control{Settings: []string{staysDead}, Refutes: refilled},
		),
		Show: show,
	})
}
