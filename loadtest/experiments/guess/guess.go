// Package guess measures how many codes an attacker who knows other codes can guess. One experiment
// tries the codes next to known codes of a running service. The other experiment predicts the next
// codes of every key source.
//
// Invariant: no guess depends on the answer to another guess. The guesses depend on known codes and on
// how key sources work, and not on a secret.
//
// Vocabulary: a guess hits if a link has the code, and misses if no link has the code.
package guess

import "keypool/loadtest/experiment"

// Experiments returns the experiments about guessing.
func Experiments() []*experiment.Experiment {
	return []*experiment.Experiment{scan(), keySources()}
}
