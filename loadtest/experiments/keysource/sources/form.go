package sources

import (
	"fmt"
	"math/big"
	"strings"
)

// The digits that codes are made of, in the order of their values.
const (
	Base62    = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	Base64URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" // RFC 4648, section 5
)

// Form is the length and the digits of codes. Each number below Size has one code.
type Form struct {
	Power string // Size as a power, for reports, such as 62^6
	Size  *big.Int

	digits string
	length int
}

func newForm(digits string, length int, base, exponent int64) *Form {
	return &Form{fmt.Sprintf("%d^%d", base, exponent), new(big.Int).Exp(big.NewInt(base), big.NewInt(exponent), nil), digits, length}
}

// FormOfLength returns the form of the codes that the default key source makes with the given length.
func FormOfLength(length int) *Form { return newForm(Base62, length, 62, int64(length)) }

// FormOf returns the form of the codes that key sources of the class c make.
func FormOf(c Class) *Form {
	switch c {
	case Time:
		return newForm(Base62, 11, 2, 63)
	case Hash:
		return newForm(Base64URL, 6, 64, 6)
	case UUID:
		return newForm(Base62, 22, 2, 128)
	case Counter, Random, Other:
	}
	return FormOfLength(6)
}

// Number reads a code as a number. If the code has another form, ok is false.
func (f *Form) Number(code string) (n *big.Int, ok bool) {
	n, base := new(big.Int), big.NewInt(int64(len(f.digits)))
	for i := range len(code) {
		value := strings.IndexByte(f.digits, code[i])
		if value < 0 {
			return nil, false
		}
		n.Add(n.Mul(n, base), big.NewInt(int64(value)))
	}
	return n, len(code) == f.length && n.Cmp(f.Size) < 0
}

// Code returns the code of a number, or "" if the form has no code for the number.
func (f *Form) Code(n *big.Int) string {
	if n.Sign() < 0 || n.Cmp(f.Size) >= 0 {
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
