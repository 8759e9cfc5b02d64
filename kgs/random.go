package kgs

import (
	"context"
	"crypto/rand"
)

// Random draws codes by chance, without any account of what is taken: whoever
// links one retries on a conflict. At a share f of the space in use that takes
// 1/(1-f) attempts on average.
type Random struct {
	Length func() int // of the codes, asked anew for each
}

var _ Generator = Random{}

// unbiased is the largest multiple of 62 that a byte can hold: bytes from there on
// are drawn again, for their remainder would favour the first eight digits.
const unbiased = 256 / len(Alphabet) * len(Alphabet)

// Next neither blocks nor fails: crypto/rand ends the program rather than run dry.
func (r Random) Next(context.Context, string, int) (Key, error) {
	var code, draw [2 * MaxLength]byte
	length, n := r.Length(), 0
	for n < length {
		rand.Read(draw[:])
		for _, b := range draw {
			if int(b) < unbiased && n < length {
				code[n] = Alphabet[int(b)%len(Alphabet)]
				n++
			}
		}
	}
	return Key{Code: string(code[:length]), Source: SourceRandom}, nil
}
