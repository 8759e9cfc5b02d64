package quota

import (
	"errors"
	"testing"
)

func TestParseRateAcceptsValidTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Rate{"off": Off, "1/s": 1, "100/s": 100, "1000000/s": maxRate} {
		got, err := ParseRate(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("ParseRate(%q) = %v, error %v; want %v", text, got, err, want)
		}
	}
	if got := Rate(100).Burst(); got != 1000 {
		t.Errorf("the burst of 100/s is %d, want 1000", got)
	}
}

func TestParseRateRefusesInvalidTexts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "0/s", "-1/s", "+1/s", "1.5/s", "100", "100/min", "1000001/s", "Off", " 1/s", "1 /s", "1e3/s"} {
		if got, err := ParseRate(text); !errors.Is(err, ErrRate) {
			t.Errorf("ParseRate(%q) = %v, error %v; want ErrRate", text, got, err)
		}
	}
}
