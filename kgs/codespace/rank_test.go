package codespace

import (
	"math"
	"strings"
	"testing"
)

func TestRankOrdersCodesByLengthThenNumber(t *testing.T) {
	t.Parallel()
	for name, s := range spaces(t) {
		want := int64(0)
		for length := MinLength; length <= MaxLength; length++ {
			for _, n := range []int64{0, 1, Size(length) - 1} {
				code := s.Code(length, n)
				if rank, ok := s.Rank(code); !ok || rank != want+n {
					t.Errorf("%s: Rank(%q) = %d, %v; want %d", name, code, rank, ok, want+n)
				}
			}
			want += Size(length)
		}
	}
}

func TestRankRefusesInvalidCodes(t *testing.T) {
	t.Parallel()
	for name, s := range spaces(t) {
		for _, other := range []string{"", "ab", "abcdefghijk", "abc_ef", "abc-ef", "abcd\u00e9", strings.Repeat("a", 22)} {
			if rank, ok := s.Rank(other); ok {
				t.Errorf("%s: %q has the rank %d, want no rank", name, other, rank)
			}
		}
	}
}

func TestAtRankPanicsOnInvalidRanks(t *testing.T) {
	t.Parallel()
	last := firstRanks[MaxLength+1]
	for _, rank := range []int64{-1, last, math.MaxInt64} {
		mustPanic(t, func() { AtRank(rank) })
	}
	if length, n := AtRank(last - 1); length != MaxLength || n != Size(MaxLength)-1 {
		t.Errorf("the last rank belongs to number %d of length %d, want the last number of the greatest length",
			n, length)
	}
}

// FuzzRank checks that Rank and AtRank are inverse functions, and that Rank accepts exactly the
// strings that Number accepts.
func FuzzRank(f *testing.F) {
	for _, code := range []string{"000", "zzz", "zzzzzzzzzz", "004C92", "a-b", "ab", "abcdefghijk", "\xff\xff\xff"} {
		f.Add([]byte("a secret of 16 B"), code)
	}
	f.Fuzz(func(t *testing.T, secret []byte, code string) {
		s := Plain()
		if permuted, err := New(secret); err == nil {
			s = permuted
		}
		length, n, err := s.Number(code)
		rank, ok := s.Rank(code)
		if ok != (err == nil) {
			t.Fatalf("Rank accepts %q: %v, but the error of Number is %v", code, ok, err)
		}
		if !ok {
			return
		}
		if gotLength, got := AtRank(rank); gotLength != length || got != n {
			t.Fatalf("Rank(%q) = %d, which is number %d of length %d; want number %d of length %d", code, rank, got, gotLength, n, length)
		}
		if back := s.Code(AtRank(rank)); back != code {
			t.Fatalf("the rank of %q is %d, which is the rank of %q", code, rank, back)
		}
	})
}
