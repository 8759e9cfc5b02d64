// Package guess measures how many codes an attacker who knows other codes can guess. One experiment
// tries the codes next to known codes of a running service. The other experiment predicts the next
// codes of every key source.
//
// Invariant: all guesses are made before any of them is tried. They depend on known codes and on how
// key sources work, and not on a secret.
//
// Vocabulary: a guess hits if a link has the code, and misses otherwise. The form of codes is
// their length and the set of their digits.
package guess

import (
	"fmt"
	"math/big"
	"strings"

	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
)

// Experiments returns the experiments about guessing.
func Experiments() []*experiment.Experiment {
	return []*experiment.Experiment{scan(), keySources()}
}

// The digits that codes are made of, in the order of their values.
const (
	base62    = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" // RFC 4648, section 5
)

// form is the length and the digits of codes. Each number below size has one code.
type form struct {
	digits string
	length int
	power  string // size as a power, for reports, such as 62^6
	size   *big.Int
}

func newForm(digits string, length int, base, exponent int64) *form {
	return &form{digits, length, fmt.Sprintf("%d^%d", base, exponent), new(big.Int).Exp(big.NewInt(base), big.NewInt(exponent), nil)}
}

// ofLength returns the form of the codes of that length that the default key source makes.
func ofLength(length int) *form { return newForm(base62, length, 62, int64(length)) }

func formOf(c sources.Class) *form {
	switch c {
	case sources.Time:
		return newForm(base62, 11, 2, 63)
	case sources.Hash:
		return newForm(base64url, 6, 64, 6)
	case sources.UUID:
		return newForm(base62, 22, 2, 128)
	case sources.Counter, sources.Random, sources.Other:
	}
	return ofLength(6)
}

// number reads a code as a number. If the code has another form, ok is false.
func (f *form) number(code string) (n *big.Int, ok bool) {
	n, base := new(big.Int), big.NewInt(int64(len(f.digits)))
	for i := range len(code) {
		value := strings.IndexByte(f.digits, code[i])
		if value < 0 {
			return nil, false
		}
		n.Add(n.Mul(n, base), big.NewInt(int64(value)))
	}
	return n, len(code) == f.length && n.Cmp(f.size) < 0
}

// code returns the code of a number, or "" if the form has no code for the number.
func (f *form) code(n *big.Int) string {
	if n.Sign() < 0 || n.Cmp(f.size) >= 0 {
		return ""
	}
	digits, base := make([]byte, f.length), big.NewInt(int64(len(f.digits)))
	rest, digit := new(big.Int).Set(n), new(big.Int)
	for i := range digits {
		rest.DivMod(rest, base, digit)
		digits[f.length-1-i] = f.digits[digit.Int64()]
	}
	return string(digits)
}
