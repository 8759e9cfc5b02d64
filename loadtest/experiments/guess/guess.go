// Package guess measures how many codes somebody guesses who knows other codes: next to known
// codes of the running service, and by predicting the next codes of every key source.
//
// Invariant: guesses are made before any is tried, from codes that were seen and from how the
// sources work, without any secret.
//
// Vocabulary: a guess hits when a link has the code, and misses otherwise.
package guess

import (
	"math/big"
	"strings"

	"keypool/loadtest/experiment"
)

// Experiments returns the experiments about guessing.
func Experiments() []*experiment.Experiment {
	return []*experiment.Experiment{scan(), keySources()}
}

// numerals are the digits that codes are made of, in the order of their values.
type numerals string

const (
	base62    numerals = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	base64url numerals = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" // RFC 4648, section 5
)

// number reads a code as a number; ok is false when the code has other digits.
func (d numerals) number(code string) (n *big.Int, ok bool) {
	n, base := new(big.Int), big.NewInt(int64(len(d)))
	for i := range len(code) {
		value := strings.IndexByte(string(d), code[i])
		if value < 0 {
			return nil, false
		}
		n.Add(n.Mul(n, base), big.NewInt(int64(value)))
	}
	return n, true
}

// code writes a number with so many digits; ok is false when it needs more, or is negative.
func (d numerals) code(n *big.Int, length int) (code string, ok bool) {
	if n.Sign() < 0 {
		return "", false
	}
	digits, base := make([]byte, length), big.NewInt(int64(len(d)))
	rest, digit := new(big.Int).Set(n), new(big.Int)
	for i := length - 1; i >= 0; i-- {
		rest.DivMod(rest, base, digit)
		digits[i] = d[digit.Int64()]
	}
	return string(digits), rest.Sign() == 0
}

// size is how many codes of a length there are.
func (d numerals) size(length int) *big.Int {
	return new(big.Int).Exp(big.NewInt(int64(len(d))), big.NewInt(int64(length)), nil)
}
