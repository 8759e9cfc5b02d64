package keysource

import (
	"math/big"
	"strings"
	"testing"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
)

func TestUUIDFollowsGeneratorContract(t *testing.T) {
	t.Parallel()
	kgstest.TestGenerator(t, func(*testing.T) kgs.Generator { return UUID{} })
}

// TestUUIDGivesKnownAnswers compares the codes with codes that another program computed.
func TestUUIDGivesKnownAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		hi, lo uint64
		want   string
	}{
		{0, 0, "0000000000000000000000"},
		{0, 61, "000000000000000000000z"},
		{0, 62, "0000000000000000000010"},
		{0, 1_000_000, "0000000000000000004C92"},
		{0, 1<<64 - 1, "00000000000LygHa16AHYF"},
		{1, 0, "00000000000LygHa16AHYG"},
		{1 << 63, 0, "3tX16dB2jpss4tZORYcqo4"},
		{0x0123456789abcdef, 0xfedcba9876543210, "0296tiiBb3UUmdjYQ3ySu0"},
		{1<<64 - 1, 1<<64 - 1, "7n42DGM5Tflk9n8mt7Fhc7"},
	} {
		if got := base62Of128(tc.hi, tc.lo); got != tc.want {
			t.Errorf("%#x, %#x: %s, want %s", tc.hi, tc.lo, got, tc.want)
		}
	}
}

func TestEveryBitOfUUIDVaries(t *testing.T) {
	t.Parallel()
	const codes = 1000
	var ones [128]int
	for range codes {
		n := uuidNumber(t)
		if n.BitLen() > len(ones) {
			t.Fatalf("%v has more than 128 bits", n)
		}
		for i := range ones {
			ones[i] += int(n.Bit(i))
		}
	}
	for i, n := range ones {
		if n == 0 || n == codes {
			t.Errorf("bit %d is 1 in %d of %d codes, want both values", i, n, codes)
		}
	}
}

// uuidNumber draws a code and returns its number. It swaps upper and lower case, because math/big
// orders lower case letters before upper case letters.
func uuidNumber(t *testing.T) *big.Int {
	t.Helper()
	k, err := UUID{}.Next(t.Context(), "", 0)
	if err != nil || len(k.Code) != 22 || k.Source != kgs.SourceUUID {
		t.Fatalf("Next = %+v, %v", k, err)
	}
	n, ok := new(big.Int).SetString(strings.Map(func(r rune) rune {
		if r >= 'A' {
			r ^= 'a' - 'A'
		}
		return r
	}, k.Code), codespace.Base)
	if !ok {
		t.Fatalf("%q is not in base 62", k.Code)
	}
	return n
}
