package keysource

import (
	"context"
	"crypto/rand"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

// Random draws random codes. It keeps no record of used codes, so its caller retries after a
// conflict. If a fraction f of the space is in use, a code needs 1/(1-f) attempts on average.
type Random struct {
	Length func() int // returns the number of characters of a code; later attempts of a creation can draw longer codes
	First  int        // the attempt of a creation at which Random draws its first code
}

// attemptsOfLength is the number of attempts of one creation at each code length. After these attempts, the codes of
// the creation are one character longer. So a creation can succeed even if all codes of the first length are in use.
// But it reaches a longer code within its time limit of 5 s only if its attempts take less than 25 ms on average. If 53
// billion of the codes with six characters are in use, one creation in a million needs more than 200 attempts.
const attemptsOfLength = 200

var _ kgs.Generator = Random{}

// unbiased is the largest multiple of 62 that fits into a byte. Next skips bytes of this value or
// above, because they would make the first eight digits more frequent.
const unbiased = 256 / codespace.Base * codespace.Base

// Next neither blocks nor returns an error. If the system has no randomness, crypto/rand ends
// the program.
func (r Random) Next(_ context.Context, _ string, attempt int) (kgs.Key, error) {
	var code, draw [2 * codespace.MaxLength]byte
	length, n := min(r.Length()+max(0, attempt-r.First)/attemptsOfLength, codespace.MaxLength), 0
	for n < length {
		rand.Read(draw[:])
		for _, b := range draw {
			if int(b) < unbiased && n < length {
				code[n] = codespace.Alphabet[int(b)%codespace.Base]
				n++
			}
		}
	}
	return kgs.Key{Code: string(code[:length]), Source: kgs.SourceRandom}, nil
}
