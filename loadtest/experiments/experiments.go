// Package experiments lists every experiment.
package experiments

import (
	"slices"

	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/bars"
	"keypool/loadtest/experiments/compare"
	"keypool/loadtest/experiments/fault"
	"keypool/loadtest/experiments/guess"
	"keypool/loadtest/experiments/keysource"
	"keypool/loadtest/experiments/load"
	"keypool/loadtest/experiments/outage"
	"keypool/loadtest/experiments/space"
	"keypool/loadtest/experiments/supply"
)

// All returns every experiment, in the order of the report.
func All() []*experiment.Experiment {
	return slices.Concat(
		load.Experiments(), supply.Experiments(), outage.Experiments(), space.Experiments(), guess.Experiments(),
		keysource.Experiments(), compare.Experiments(), fault.Experiments(), bars.Experiments(),
	)
}

// LoadTest returns the names of the groups that `make loadtest` runs. For example, the group load
// contains the experiments whose names begin with load/.
func LoadTest() []string { return []string{"load", "supply", "outage", "space", "guess"} }
