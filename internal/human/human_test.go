package human

import "testing"

func TestDurationUsesTwoLargestUnits(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]string{
		-70: "-1 min 10 s", 0: "0 s", 0.04: "0 s", 0.44: "0.4 s", 43: "43 s", 48.24: "48.2 s", 192.4: "3 min 12 s", 3599.9: "1 h", 7530: "2 h 5 min", 100000: "1 d 3 h", 43.25: "43.3 s", 59.94: "59.9 s", 59.96: "1 min", 60: "1 min",
		812.3: "13 min 32 s", 4980: "1 h 23 min", 3600: "1 h", 3601: "1 h", 7199: "1 h 59 min", 19800: "5 h 30 min",
		86399.6: "1 d", 172800: "2 d", 12.5 * 86400: "12 d 12 h", 657.4 * 86400: "657 d 9 h", 2 * year: "2 years", 1e12: "31,709 years",
	} {
		if got := Duration(seconds); got != want {
			t.Errorf("Duration(%v) = %q, want %q", seconds, got, want)
		}
	}
}

func TestPerSecondFormatsRate(t *testing.T) {
	t.Parallel()
	for rate, want := range map[float64]string{0: "0/s", 0.04: "0/s", 9.5: "9.5/s", 9.96: "10/s", 1234.4: "1,234/s"} {
		if got := PerSecond(rate); got != want {
			t.Errorf("PerSecond(%v) = %q, want %q", rate, got, want)
		}
	}
}
