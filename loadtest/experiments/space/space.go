// Package space measures how many attempts a creation takes as the space of codes fills. One
// experiment measures the fallback at several levels, and the other measures every key source.
//
// Invariant: the share of codes in use is constant during a measurement, or it is known for each
// creation. Therefore the prediction has no free parameter.
//
// Vocabulary: the space is all codes of one length. f is the share of these codes that links have.
// An attempt is one code that a creation tries.
package space

import (
	"fmt"
	"math"

	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
)

// Experiments returns the experiments about the space.
func Experiments() []*experiment.Experiment {
	return []*experiment.Experiment{fallback(), keySources()}
}

// alphabet holds the digits of codes in the order of their values.
const alphabet = sources.Base62

// filler is the URL of links that only fill a space.
const filler = "https://filler.example/"

// sizeOf returns the number of codes of a length.
func sizeOf(length int) int64 { return int64(math.Pow(float64(len(alphabet)), float64(length))) }

// codeSQL returns an SQL expression for the code of the number n. It is the code that the ledger
// makes without its permutation.
func codeSQL(length int) string {
	expression := "''"
	for place := range length {
		expression += fmt.Sprintf(" || substr('%s', CAST(n / %d %% %d AS INTEGER) + 1, 1)", alphabet, sizeOf(length-1-place), len(alphabet))
	}
	return expression
}

// rankSQL returns an SQL expression for the rank of number 0 of a length: the number of shorter codes,
// of which the shortest have three characters.
func rankSQL(length int) string {
	rank := int64(0)
	for shorter := 3; shorter < length; shorter++ {
		rank += sizeOf(shorter)
	}
	return fmt.Sprint(rank)
}
