package schemes

import (
	"math/big"
	"strings"
)

// numerals are the digits that codes are made of, in the order of their values.
type numerals string

const (
	base62    numerals = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	base64url numerals = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" // RFC 4648, section 5
)

// number reads a code as a number; ok is false when it has other digits.
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

// code writes a number with so many digits; ok is false when it takes more, or is negative.
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

// sixes is how many codes of six digits there are.
func (d numerals) sixes() *big.Int {
	return new(big.Int).Exp(big.NewInt(int64(len(d))), big.NewInt(6), nil)
}
