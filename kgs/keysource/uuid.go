package keysource

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"math/bits"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

// uuidLength is how many digits of base 62 hold 128 bits: 62^22 is 2.7e39, 2^128 is 3.4e38.
const uuidLength = 22

// UUID draws 128 bits by chance and writes them in base 62, padded with zeros to 22
// characters. Nobody has to be asked: after 10^15 links the chance that any two of them drew
// the same is 1.5e-9. The price is long codes, scattered all over the index of the store.
//
// All bits are of chance, where RFC 9562, section 5.4, keeps 6 of them for itself.
type UUID struct{}

var _ kgs.Generator = UUID{}

// Next neither blocks nor fails: crypto/rand ends the program rather than run dry.
func (UUID) Next(context.Context, string, int) (kgs.Key, error) {
	var b [16]byte
	rand.Read(b[:])
	return kgs.Key{Code: base62Of128(binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])), Source: kgs.SourceUUID}, nil
}

// base62Of128 writes hi*2^64 + lo. Each number has a code of its own, so codes are as even
// as the numbers.
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
