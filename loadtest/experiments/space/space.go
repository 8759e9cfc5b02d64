// Package space measures what creations cost as the space of codes fills: the random fallback
// level by level, and every key source.
//
// Invariant: the share of codes in use stands still during a measurement or is known for each
// creation, so the prediction has no free parameter.
//
// Vocabulary: the space is all codes of one length, f the share of them that links have, and an
// attempt one code that a creation tries.
package space

import (
	"fmt"

	"keypool/loadtest/experiment"
)

// Experiments returns the experiments about the space.
func Experiments() []*experiment.Experiment {
	return []*experiment.Experiment{fallback(), keySources()}
}

// alphabet holds the digits of codes in the order of their values.
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// filler is the URL of links that only fill a space.
const filler = "https://filler.example/"

// sizeOf is how many codes of a length there are.
func sizeOf(length int) int64 {
	size := int64(1)
	for range length {
		size *= int64(len(alphabet))
	}
	return size
}

// codeSQL is an SQL expression for the code of the number n, as the ledger makes it without its
// permutation.
func codeSQL(length int) string {
	expression, divisor := "", sizeOf(length)
	for i := range length {
		if i > 0 {
			expression += " || "
		}
		divisor /= int64(len(alphabet))
		expression += fmt.Sprintf("substr('%s', CAST(n / %d %% %d AS INTEGER) + 1, 1)", alphabet, divisor, len(alphabet))
	}
	return expression
}
