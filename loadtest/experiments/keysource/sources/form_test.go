package sources

import (
	"math/big"
	"testing"
)

func TestCodeFormConvertsBetweenCodesAndNumbers(t *testing.T) {
	for _, tt := range []struct {
		class  Class
		number string
		code   string
	}{
		{Random, "0", "000000"},
		{Random, "1000000", "004C92"},
		{Random, "56800235583", "zzzzzz"},
		{Time, "9223372036854775807", "AzL8n0Y58m7"}, // the largest number of 63 bits
		{UUID, "340282366920938463463374607431768211455", "7n42DGM5Tflk9n8mt7Fhc7"},
		{Hash, "68719476735", "______"},
		{Hash, "1", "AAAAAB"},
	} {
		f := FormOf(tt.class)
		n, ok := f.Number(tt.code)
		if !ok || n.String() != tt.number {
			t.Errorf("the code %s has the number %v, want %s", tt.code, n, tt.number)
			continue
		}
		if code := f.Code(n); code != tt.code {
			t.Errorf("the number %s has the code %s, want %s", tt.number, code, tt.code)
		}
	}
}

func TestCodeFormRejectsOtherCodesAndNumbersOutOfRange(t *testing.T) {
	for _, s := range Compared() {
		f := FormOf(s.Class)
		last := f.Code(new(big.Int).Sub(f.Size, big.NewInt(1)))
		if _, ok := f.Number(last); !ok {
			t.Errorf("%s: Number rejects the last code %q", s.Name, last)
		}
		for _, code := range []string{"", last + "0", last[1:], "%" + last[1:]} {
			if _, ok := f.Number(code); ok {
				t.Errorf("%s: Number accepts %q", s.Name, code)
			}
		}
		for _, n := range []*big.Int{big.NewInt(-1), f.Size} {
			if code := f.Code(n); code != "" {
				t.Errorf("%s: the number %v has the code %q, want none", s.Name, n, code)
			}
		}
	}
	if _, ok := FormOf(Time).Number("zzzzzzzzzzz"); ok {
		t.Error("Number accepts a Snowflake of more than 63 bits")
	}
}
