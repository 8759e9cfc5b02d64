package report

import (
	"math"
	"testing"
)

func TestQuantityHasFourSignificantDigits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		v    float64
		unit string
		want string
	}{
		{0, "links", "0 links"},
		{4.2137, "ms", "4.214 ms"},
		{10, "ms", "10 ms"},
		{0.1 + 0.2, "", "0.3"},
		{0.0000176, "", "0.0000176"},
		{1.7e-9, "s", "1.7e-09 s"},
		{999.96, "keys", "1,000 keys"},
		{1503204.7, "keys/s", "1,503,205 keys/s"},
		{-1234567, "", "-1,234,567"},
		{1e8, "keys", "100,000,000 keys"},
		{99.5, "%", "99.5 %"},
		{math.NaN(), "s", "–"},
		{math.Inf(1), "s", "–"},
	} {
		if got := Quantity(tt.v, tt.unit); got != tt.want {
			t.Errorf("%v %s: %q, want %q", tt.v, tt.unit, got, tt.want)
		}
	}
	if got := quantity(nil, "s"); got != "–" {
		t.Errorf("a missing figure is formatted as %q, want a dash", got)
	}
}

func TestRatioIsDashWithoutQuotient(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		observed, predicted *float64
		want                string
	}{
		{ptr(29.94), ptr(30.12), "0.994"},
		{ptr(0), ptr(10), "0.000"},
		{ptr(15032), ptr(10), "1,503"},
		{ptr(0), ptr(0), "–"},
		{ptr(1), ptr(0), "–"},
		{nil, ptr(1), "–"},
		{ptr(1), nil, "–"},
	} {
		if got := ratio(tt.observed, tt.predicted); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestDurationChoosesUnit(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]string{
		0: "0 s", 51e-9: "51 ns", 17.29e-6: "17.3 µs", 0.0042137: "4.21 ms", 0.5: "500 ms", 48.24: "48.2 s", 59.99: "1 min", 70: "1 min 10 s",
		192.4: "3 min 12 s", 3599.9: "1 h", 7530: "2 h 5 min", 100000: "1 d 3 h", -70: "-1 min 10 s",
	} {
		if got := took(seconds); got != want {
			t.Errorf("%v: %q, want %q", seconds, got, want)
		}
	}
}
