package keysource

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"math/bits"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

// uuidLength is the number of base 62 digits that 128 bits need: 62^22 is 2.7e39, and 2^128 is
// 3.4e38.
const uuidLength = 22

// UUID draws 128 random bits and writes them in base 62, padded with zeros to 22 characters. It
// needs no coordination. Among 10^15 codes, the probability that any two are equal is 1.5e-9. The
// disadvantages are long codes, and inserts at random places in the index of the store.
//
// All 128 bits are random. A UUID of RFC 9562, section 5.4, has only 122 random bits, because it
// uses 6 bits for the version and the variant.
type UUID struct{}

var _ kgs.Generator = UUID{}

// Next neither blocks nor returns an error. If the system has no randomness, crypto/rand ends
// the program.
func (UUID) Next(context.Context, string, int) (kgs.Key, error) {
	var b [16]byte
	rand.Read(b[:])
	return kgs.Key{Code: base62Of128(binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])), Source: kgs.SourceUUID}, nil
}

// base62Of128 writes hi*2^64 + lo. Different numbers have different codes, so the codes are as
// evenly distributed as the numbers.
func base62Of128(hi, lo uint64) string {
	var code [uuidLength]byte
	for i := uuidLength - 1; i >= 0; i-- {
		var digit uint64
		hi, digit = hi/codespace.Base, hi%codespace.Base
		lo, digit = bits.Div64(digit, lo, codespace.Base)
		code[i] = codespace.Alphabet[digit]
	}
	return string(code[:])
}
