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

// Reversed returns the reverse of [Plain]. Almost every code has different ranks in the two orders. In a server, a
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
// store must never return a link with another code. The parameters plain and reversed are stores on one database.
// They have the orders [Plain] and [Reversed], and the links are stored in the order [Plain].
func RefusesOtherOrder(t *testing.T, plain, reversed shortener.Store) {
	t.Helper()
	const lastCode, firstCode = "zzzzzzzzzz", "000" // the rank of lastCode in the store plain equals the rank of firstCode in the store reversed
	Insert(t, plain, Link(lastCode))
	if link, err := reversed.Lookup(t.Context(), firstCode); !errors.Is(err, shortener.ErrOtherOrder) {
		t.Errorf("Lookup with another order: %v, %v; want ErrOtherOrder", link, err)
	}
	if outcomes, err := reversed.Insert(t.Context(), []shortener.Link{Link(firstCode)}); !errors.Is(err, shortener.ErrOtherOrder) {
		t.Errorf("Insert with another order: %v, %v; want ErrOtherOrder", outcomes, err)
	}
	if err := reversed.Change(t.Context(), Link(firstCode), Deleted(Link(firstCode), Moment())); !errors.Is(err, shortener.ErrChanged) {
		t.Errorf("Change with another order: %v; want ErrChanged", err)
	}
	WantLink(t, plain, Link(lastCode))
}
