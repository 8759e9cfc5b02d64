package scenario

import (
	"testing"
	"time"
)

// smallScan is one of a few seconds.
func smallScan() scanPlan {
	return scanPlan{
		length: 3, links: 400, rate: 400, known: 20, reach: 20, alone: time.Second, permute: "KGS_PERMUTE=true",
	}
}

func TestScan(t *testing.T) {
	t.Parallel()
	got := Scenario{Name: "scan", Run: smallScan().run}.Execute(t.Context(), quiet())
	mustHold(t, got)
	if len(got.Charts) != 1 || len(got.Tables) != 2 {
		t.Errorf("%d charts and %d tables", len(got.Charts), len(got.Tables))
	}
}

// A service whose codes are a counter, and that says otherwise, is found out.
func TestScanOfACounter(t *testing.T) {
	t.Parallel()
	plan := smallScan()
	plan.permute = "KGS_PERMUTE=false"
	mustFail(t, Scenario{Name: "scan", Run: plan.run}.Execute(t.Context(), quiet()), claimUnguessed)
}

// scanned is a scan as it ought to have gone: ten links of a counter from 1,000 on, and as
// many anywhere.
func scanned() *scanRun {
	s := &scanRun{scanPlan: scanPlan{length: 3, links: 10, known: 2, reach: 3}, permuted: &victim{}, counter: &victim{}}
	s.enterClaims()
	for n := range int64(10) {
		s.counter.codes = append(s.counter.codes, 1000+n)
		s.permuted.codes = append(s.permuted.codes, 20_000*n)
	}
	for _, v := range []*victim{s.permuted, s.counter} {
		v.known = map[int64]bool{v.codes[0]: true, v.codes[5]: true}
		for known := range v.known {
			v.guesses = append(v.guesses, known-3, known-2, known-1, known+1, known+2, known+3)
		}
		v.answers.Misses = int64(len(v.guesses))
	}
	s.counter.answers = answers{Hits: 9, Misses: 3}
	s.permuted.alone, s.permuted.elapsed = answers{Misses: 300, Refused: 1000}, 2*time.Second
	return s
}

// Each thing that may be found fails the claim that it is about, and no other.
func TestScanClaimsCanFail(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(*scanRun)
		want  []string
	}{
		{"as it ought to be", func(*scanRun) {}, nil},
		{"hits that are not chance", func(s *scanRun) { s.permuted.answers = answers{Hits: 2, Misses: 10} }, []string{claimUnguessed}},
		{"a scan that finds nothing anywhere", func(s *scanRun) { s.counter.answers = answers{Misses: 12} }, []string{claimCounter}},
		{"guesses that were refused", func(s *scanRun) { s.permuted.answers = answers{Misses: 11, Refused: 1} }, []string{claimAnswered}},
		{"an address that nobody answers", func(s *scanRun) { s.permuted.alone = answers{Failed: 1300} }, []string{claimThrottle}},
		{"an address that hardly misses", func(s *scanRun) { s.permuted.alone = answers{Hits: 1000, Misses: 10} }, nil},
		{"an address that is refused nothing", func(s *scanRun) { s.permuted.alone.Refused = 0 }, []string{claimThrottle}},
		{"an address that is answered in part", func(s *scanRun) { s.permuted.alone.Failed = 1 }, []string{claimThrottle}},
		{"an address that may go on", func(s *scanRun) { s.permuted.alone.Misses = 400 }, []string{claimThrottle}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := scanned()
			tt.spoil(s)
			s.judgeScan()
			mustFail(t, s.Scenario, tt.want...)
		})
	}
}

func TestLikely(t *testing.T) {
	t.Parallel()
	// From tables of the Poisson distribution: P(X < lo) <= 0.0005 < P(X <= lo), and as much above hi.
	for mean, want := range map[float64][2]int64{0.0005: {0, 0}, 1: {0, 6}, 10: {2, 22}} {
		if lo, hi := likely(mean); lo != want[0] || hi != want[1] {
			t.Errorf("mean %v: from %d to %d, want %v", mean, lo, hi, want)
		}
	}
}

// No code is guessed that is known, that is guessed already, or that there is not.
func TestAim(t *testing.T) {
	t.Parallel()
	v := &victim{codes: []int64{1, 3}}
	v.aim(2, 3, 3)
	if len(v.guesses) != 5 { // 0, 2, 4, 5, 6
		t.Errorf("guesses %v", v.guesses)
	}
}
