package rounds

import "testing"

func TestSeries(t *testing.T) {
	t.Parallel()
	tests := []struct {
		s      Series
		median float64
		lo, hi float64
	}{
		{nil, 0, 0, 0},
		{Series{3}, 3, 3, 3},
		{Series{9, 1, 5}, 5, 1, 9},
		{Series{4, 1, 2, 9}, 3, 1, 9},
	}
	for _, tt := range tests {
		lo, hi := tt.s.Range()
		if got := tt.s.Median(); got != tt.median || lo != tt.lo || hi != tt.hi {
			t.Errorf("%v: median %v, range %v to %v; want %v, %v to %v", tt.s, got, lo, hi, tt.median, tt.lo, tt.hi)
		}
	}
	order := Series{9, 1, 5}
	order.Median()
	if order[0] != 9 {
		t.Error("the median has sorted the rounds: ratios would be of different ones")
	}
}

func TestQuantity(t *testing.T) {
	t.Parallel()
	tests := []struct {
		v    float64
		unit string
		want string
	}{
		{33_312, PerSecond, "33.3k/s"},
		{6_627_970, PerSecond, "6.63M/s"},
		{912.34, PerSecond, "912.3/s"},
		{0.3512, Times, "0.35"},
		{25.761, "MiB", "25.76 MiB"},
	}
	for _, tt := range tests {
		if got := Quantity(tt.v, tt.unit); got != tt.want {
			t.Errorf("%v %s: %q, want %q", tt.v, tt.unit, got, tt.want)
		}
	}
}
