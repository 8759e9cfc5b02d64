package schemes

import (
	"math/big"
	"testing"
)

func TestNumerals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		digits numerals
		number string
		code   string
	}{
		{base62, "0", "000000"},
		{base62, "1000000", "004C92"}, // as the design has it
		{base62, "56800235583", "zzzzzz"},
		{base62, "9223372036854775807", "AzL8n0Y58m7"}, // the largest of 63 bits
		{base62, "340282366920938463463374607431768211455", "7n42DGM5Tflk9n8mt7Fhc7"},
		{base64url, "68719476735", "______"},
		{base64url, "1", "AAAAAB"},
	}
	for _, tt := range tests {
		n, ok := tt.digits.number(tt.code)
		if !ok || n.String() != tt.number {
			t.Errorf("%s is %v, want %s", tt.code, n, tt.number)
			continue
		}
		if code, ok := tt.digits.code(n, len(tt.code)); !ok || code != tt.code {
			t.Errorf("%s is written %s, want %s", tt.number, code, tt.code)
		}
	}
	if n, ok := base62.number("ab-cde"); ok {
		t.Errorf("a digit that there is not gives %v", n)
	}
	for _, n := range []*big.Int{big.NewInt(-1), base62.sixes()} {
		if code, ok := base62.code(n, 6); ok {
			t.Errorf("%v in six digits is %s", n, code)
		}
	}
}
