package codespace

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// This test is not parallel, because AllocsPerRun counts the allocations of the whole process.
func TestSpaceMakesFewAllocations(t *testing.T) {
	s := newSpace(t, make([]byte, 16))
	dst := make([]byte, 0, MaxLength)
	check := func(name string, limit float64, f func()) {
		t.Helper()
		if got := testing.AllocsPerRun(100, f); got > limit {
			t.Errorf("%s: %v allocations, want at most %v", name, got, limit)
		}
	}
	check("AppendCode", 0, func() { dst = s.AppendCode(dst[:0], 6, 1_000_000) })
	check("Number", 0, func() {
		if _, _, err := s.Number("004C92"); err != nil {
			t.Error(err)
		}
	})
	for _, size := range []int64{1, lanes, 1000} {
		check(fmt.Sprintf("Codes of %d numbers", size), 3, func() { s.Codes(Range{Length: 6, Lo: 7, Hi: 7 + size}) })
	}
}

// AppendCode converts one number at a time, so each AES block waits for the previous block; see
// lanes.
func BenchmarkSpaceCode(b *testing.B) {
	benchmarkLengths(b, func(b *testing.B, s *Space, length int) {
		dst := make([]byte, 0, MaxLength)
		var n int64
		for b.Loop() {
			dst = s.AppendCode(dst[:0], length, n)
			n = (n + 1) % Size(MinLength)
		}
		reportKeys(b, 1)
	})
}

// Servers make codes with Codes, and workers with AppendCodes, which Codes calls. The target is
// 4,000,000 keys/s on one core.
func BenchmarkSpaceCodes(b *testing.B) {
	benchmarkLengths(b, func(b *testing.B, s *Space, length int) {
		r := Range{Length: length, Lo: 0, Hi: 10_000}
		for b.Loop() {
			s.Codes(r)
		}
		reportKeys(b, r.Len())
	})
}

func BenchmarkSpaceNumber(b *testing.B) {
	benchmarkLengths(b, func(b *testing.B, s *Space, length int) {
		codes := s.Codes(Range{Length: length, Lo: 0, Hi: 1000})
		for i := 0; b.Loop(); i++ {
			if _, _, err := s.Number(codes[i%len(codes)]); err != nil {
				b.Fatal(err)
			}
		}
		reportKeys(b, 1)
	})
}

// The codes are in random order, so the measured time includes sorting.
func BenchmarkSpaceRanges(b *testing.B) {
	benchmarkLengths(b, func(b *testing.B, s *Space, length int) {
		codes := s.Codes(Range{Length: length, Lo: 0, Hi: 10_000})
		shuffle := rand.New(rand.NewPCG(1, 2))
		shuffle.Shuffle(len(codes), func(i, j int) { codes[i], codes[j] = codes[j], codes[i] })
		for b.Loop() {
			if _, err := s.Ranges(codes); err != nil {
				b.Fatal(err)
			}
		}
		reportKeys(b, int64(len(codes)))
	})
}

func benchmarkLengths(b *testing.B, f func(b *testing.B, s *Space, length int)) {
	for _, bits := range []int{128, 256} {
		s := newSpace(b, make([]byte, bits/8))
		for _, length := range []int{6, 7, 10} {
			b.Run(fmt.Sprintf("AES-%d/length=%d", bits, length), func(b *testing.B) { f(b, s, length) })
		}
	}
}

func reportKeys(b *testing.B, perOp int64) {
	b.Helper()
	b.ReportAllocs()
	b.ReportMetric(float64(b.N)*float64(perOp)/b.Elapsed().Seconds(), "keys/s")
}
