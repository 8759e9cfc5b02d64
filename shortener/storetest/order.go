package storetest

import (
	"errors"
	"strings"
	"testing"

	"keypool/shortener"
)

// order is an order of the codes of 3 to 10 digits in base 62.
type order struct {
	name     string
	reversed bool
}

// Plain returns an order by the length of the code, and then by the value of the code as a number
// in base 62.
func Plain() shortener.Order { return order{name: "plain"} }

// Reversed returns the reverse of [Plain], in which almost every code has another rank. In a real order, a
// change of KGS_SECRET has the same effect.
func Reversed() shortener.Order { return order{name: "reversed", reversed: true} }

const (
	digits            = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	shortest, longest = 3, 10 // lengths of the codes that have a rank
)

// Fingerprint implements [shortener.Order].
func (o order) Fingerprint() string { return o.name }

// Rank implements [shortener.Order].
func (o order) Rank(code string) (rank int64, ok bool) {
	if len(code) < shortest || len(code) > longest {
		return 0, false
	}
	value := int64(0)
	for i := range len(code) {
		digit := strings.IndexByte(digits, code[i])
		if digit < 0 {
			return 0, false
		}
		value = value*int64(len(digits)) + int64(digit)
	}
	rank = value + codesShorterThan(len(code))
	if o.reversed {
		rank = codesShorterThan(longest+1) - 1 - rank
	}
	return rank, true
}

// codesShorterThan returns the number of codes that have a rank and fewer than length characters.
func codesShorterThan(length int) (n int64) {
	size := int64(1)
	for l := range length {
		if l >= shortest {
			n += size
		}
		size *= int64(len(digits))
	}
	return n
}

// RefusesOtherOrder checks a store that expects another order than the order in which the links are stored. Such a
// store must never return a link with another code. The parameters right and wrong are stores on one database. The
// store right has the order [Plain], and the store wrong has the order [Reversed].
func RefusesOtherOrder(t *testing.T, right, wrong shortener.Store) {
	t.Helper()
	const last, first = "zzzzzzzzzz", "000" // the rank of last in the store right equals the rank of first in the store wrong
	Insert(t, right, Link(last))
	if link, err := wrong.Lookup(t.Context(), first); !errors.Is(err, shortener.ErrOtherOrder) {
		t.Errorf("Lookup with another order: %v, %v; want ErrOtherOrder", link, err)
	}
	if outcomes, err := wrong.Insert(t.Context(), []shortener.Link{Link(first)}); !errors.Is(err, shortener.ErrOtherOrder) {
		t.Errorf("Insert with another order: %v, %v; want ErrOtherOrder", outcomes, err)
	}
	if err := wrong.Change(t.Context(), Link(first), Deleted(Link(first), Moment())); !errors.Is(err, shortener.ErrChanged) {
		t.Errorf("Change with another order: %v; want ErrChanged", err)
	}
	WantLink(t, right, Link(last))
}
