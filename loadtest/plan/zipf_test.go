package plan

import (
	"math"
	"testing"
)

func TestHarmonicNumberEqualsExactSum(t *testing.T) {
	t.Parallel()
	for _, s := range []float64{0, 0.5, 0.6, 0.999999, 1, 1.000001, 1.03, 2, 3} {
		sum := 0.0
		for i := 1; i <= 100_000; i++ {
			sum += math.Pow(float64(i), -s)
			if n := float64(i); i == 1 || i == exact || i == exact+1 || i == 12_345 || i == 100_000 {
				if got := harmonic(n, s); !near(got, sum, 1e-9) {
					t.Errorf("H(%v) with exponent %v: got %v, want %v", n, s, got, sum)
				}
			}
		}
	}
}

func TestHitRatioEqualsHandCalculation(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ cached, links, s, want float64 }{
		{50, 100, 0, 0.5}, // all links are equally popular
		{2, 3, 1, (1 + 1.0/2) / (1 + 1.0/2 + 1.0/3)}, // 0.8182
		{100, 10, 0.6, 1}, // the cache has room for all links
	} {
		if got := hitRatio(tt.cached, tt.links, tt.s); !near(got, tt.want, 1e-12) {
			t.Errorf("%+v: got %v", tt, got)
		}
	}
}

func TestShareOfRequestsWithoutLookupEqualsHandCalculation(t *testing.T) {
	t.Parallel()
	// One link, 10 requests per second: in the 0.9 s after a look-up, 9 requests need no look-up. The tenth
	// request looks the link up. The share is 9/10.
	if got := freshRatio(100, 1, 1, 10); !near(got, 0.9, 1e-12) {
		t.Errorf("with one link, the share is %v, want 0.9", got)
	}
	// Two equally popular links, 10 requests per second: each link gets 5, and 4.5/5.5 of them need no
	// look-up.
	if got := freshRatio(100, 2, 0, 10); !near(got, 4.5/5.5, 1e-12) {
		t.Errorf("with two links, the share is %v, want 4.5/5.5", got)
	}
	// A cache of one of these two links can answer half of the requests.
	if got := freshRatio(1, 2, 0, 10); !near(got, 4.5/5.5/2, 1e-12) {
		t.Errorf("with two links and a cache of one, the share is %v, want 4.5/5.5/2", got)
	}
	if got := freshRatio(100, 10, 1, 0); got != 0 {
		t.Errorf("without requests, the share is %v", got)
	}
}
