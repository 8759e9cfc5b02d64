package codespace

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestPlainSpaceWritesNumbersInBase62(t *testing.T) {
	t.Parallel()
	s := Plain()
	if got := s.Fingerprint(); got != "plain" {
		t.Errorf("fingerprint %q, want plain", got)
	}
	for _, tc := range []struct {
		length int
		n      int64
		want   string
	}{
		{6, 1_000_000, "004C92"},
		{6, 0, "000000"},
		{6, 9, "000009"},
		{6, 10, "00000A"},
		{6, 35, "00000Z"},
		{6, 36, "00000a"},
		{6, 61, "00000z"},
		{6, 62, "000010"},
		{3, 238_327, "zzz"},
		{10, 839_299_365_868_340_223, "zzzzzzzzzz"},
	} {
		if got := string(s.AppendCode(nil, tc.length, tc.n)); got != tc.want {
			t.Errorf("code of %d = %q, want %q", tc.n, got, tc.want)
		}
		if length, n, err := s.Number(tc.want); length != tc.length || n != tc.n || err != nil {
			t.Errorf("number of %q = %d, %d, %v, want %d, %d", tc.want, length, n, err, tc.length, tc.n)
		}
	}
}

// The mapping must never change. With another mapping, new numbers of an existing ledger would
// give codes that already have links.
func TestSpaceGivesKnownAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		secret, fingerprint string
		codes               []string // one string per length: the codes of the numbers 0, 1 and 1,000, and of the last number
	}{
		{"000102030405060708090a0b0c0d0e0f", "af9948e92c696fa6", []string{
			"RYm yve HSV pJk",
			"dQM8 fuRK kKhm DDlL",
			"byoAh lgu64 8Nmli x9UKV",
			"rDdXHG CYYiWD LoF4jm h0MVQd",
			"9d6UNo0 83y2n5Z VjHhrDb GGAEnWI",
			"Qk0mKAg6 dQjjX1wZ J5ED4TS2 8acyggWW",
			"rpDPavJvF GshP91rYS 5isLOg2sD 3PKyiS8fM",
			"6tZe8y9Cf1 Y0kwHS3n7t wTw0VC4yTd ZQz4TziLHH",
		}},
		{"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "211b3b37823bc534", []string{
			"SHo 9g9 erZ s2l",
			"ZjpT GXDf YqO9 O5dR",
			"LaXkd AoLhE oMg3M isSNF",
			"tUI1V5 pLiL1A T5nVrF xTMm1N",
			"BdsW24j z5EPp7H idtUQon JXqDbvM",
			"rx4S56sk xLxkCob4 PpZMcFMe 6j5qIo2m",
			"70Lm0yCda 4NX90uxgm SyJvFC8RS EmQB81GiF",
			"coP4T4nt0M S6SU0A3qV6 T2fJMLEHne 2PUmYP2JM0",
		}},
	} {
		s := newSpace(t, unhex(t, tc.secret))
		if got := s.Fingerprint(); got != tc.fingerprint {
			t.Errorf("secret %s: fingerprint %q, want %q", tc.secret, got, tc.fingerprint)
		}
		var codes []string
		for length := MinLength; length <= MaxLength; length++ {
			var line []byte
			for _, n := range []int64{0, 1, 1000, Size(length) - 1} {
				line = append(s.AppendCode(line, length, n), ' ')
			}
			codes = append(codes, strings.TrimSpace(string(line)))
		}
		if diff := cmp.Diff(tc.codes, codes); diff != "" {
			t.Errorf("secret %s: codes (-want +got):\n%s", tc.secret, diff)
		}
	}
}

func TestSizeReturnsNumberOfCodesOfLength(t *testing.T) {
	t.Parallel()
	for length, want := range map[int]int64{
		3: 238_328, 4: 14_776_336, 5: 916_132_832, 6: 56_800_235_584, 7: 3_521_614_606_208,
		8: 218_340_105_584_896, 9: 13_537_086_546_263_552, 10: 839_299_365_868_340_224,
	} {
		if got := Size(length); got != want {
			t.Errorf("Size(%d) = %d, want %d", length, got, want)
		}
	}
}

func TestNewSpaceAcceptsOnlySecretsOf16Or32Bytes(t *testing.T) {
	t.Parallel()
	for size := range 40 {
		_, err := New(make([]byte, size))
		if ok := size == 16 || size == 32; ok != (err == nil) {
			t.Errorf("New with a secret of %d bytes: error %v, want an error unless there are 16 or 32 bytes",
				size, err)
		}
	}
}

func TestFingerprintDependsOnSecret(t *testing.T) {
	t.Parallel()
	seen := map[string]string{"plain": "no secret"}
	secret := make([]byte, 16)
	for i := range secret {
		secret[i] = 1
		got := newSpace(t, secret).Fingerprint()
		if again := newSpace(t, secret).Fingerprint(); got != again {
			t.Errorf("secret %x: two calls gave the fingerprints %s and %s", secret, got, again)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("secret %x has the fingerprint of %s", secret, other)
		}
		seen[got] = fmt.Sprintf("%x", secret)
	}
}

func TestSpaceMapsNumbersOneToOneToCodes(t *testing.T) {
	t.Parallel()
	plain := Plain()
	for name, s := range spaces(t) {
		taken := make([]bool, Size(3)) // indexed by the value of the code in base 62
		for _, code := range s.Codes(Range{Length: 3, Lo: 0, Hi: Size(3)}) {
			_, i, err := plain.Number(code)
			if err != nil {
				t.Fatal(err)
			}
			if taken[i] {
				t.Fatalf("%s: code %q has two numbers", name, code)
			}
			taken[i] = true
		}
		if i := slices.Index(taken, false); i >= 0 {
			t.Errorf("%s: no number has the code %q", name, plain.AppendCode(nil, 3, int64(i)))
		}
	}
}

func TestSpaceNumberIsInverseOfCode(t *testing.T) {
	t.Parallel()
	all := spaces(t)
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpace(t, all)
		r := drawRange(t, 1)
		code := string(s.AppendCode(nil, r.Length, r.Lo))
		if length, n, err := s.Number(code); length != r.Length || n != r.Lo || err != nil {
			t.Fatalf("number of %q = %d, %d, %v, want %d, %d", code, length, n, err, r.Length, r.Lo)
		}
		// Conversely, any string of digits is the code of a number.
		code = rapid.StringOfN(rapid.RuneFrom([]rune(Alphabet)), MinLength, MaxLength, -1).Draw(t, "code")
		length, n, err := s.Number(code)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(s.AppendCode(nil, length, n)); got != code {
			t.Fatalf("%q has the number %d, but the code of this number is %q", code, n, got)
		}
	})
}

func TestCodesReturnsSameCodesAsAppendCode(t *testing.T) {
	t.Parallel()
	all := spaces(t)
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpace(t, all)
		r := drawRange(t, 3*lanes)
		want := make([]string, r.Len())
		for i := range want {
			want[i] = string(s.AppendCode(nil, r.Length, r.Lo+int64(i)))
		}
		if diff := cmp.Diff(want, s.Codes(r)); diff != "" {
			t.Fatalf("codes of %v (-want +got):\n%s", r, diff)
		}
	})
}

func TestSpaceFindsRangesOfItsCodes(t *testing.T) {
	t.Parallel()
	all := spaces(t)
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpace(t, all)
		r := drawRange(t, 200)
		split := rapid.Int64Range(0, r.Len()-1).Draw(t, "number left out")
		codes := rapid.Permutation(s.Codes(r)).Draw(t, "codes")
		mustRanges(t, s, codes, []Range{r})

		// A missing number splits the range in two.
		missing := string(s.AppendCode(nil, r.Length, r.Lo+split))
		codes = slices.DeleteFunc(codes, func(code string) bool { return code == missing })
		parts := []Range{{r.Length, r.Lo, r.Lo + split}, {r.Length, r.Lo + split + 1, r.Hi}}
		mustRanges(t, s, codes, slices.DeleteFunc(parts, func(r Range) bool { return r.Len() == 0 }))
	})
}

func TestSpaceFindsRangesOfCodesOfSeveralLengths(t *testing.T) {
	t.Parallel()
	for _, s := range spaces(t) {
		want := []Range{{3, 0, 2}, {3, 3, 4}, {6, 2, 50}, {10, Size(10) - 20, Size(10)}}
		var codes []string
		for _, r := range slices.Backward(want) {
			codes = append(codes, s.Codes(r)...)
		}
		mustRanges(t, s, codes, want)
		mustRanges(t, s, nil, nil)
	}
}

func TestSpaceRefusesRepeatedCode(t *testing.T) {
	t.Parallel()
	for name, s := range spaces(t) {
		codes := s.Codes(Range{Length: 6, Lo: 10, Hi: 90})
		_, err := s.Ranges(append(codes, codes[33]))
		if err == nil || !strings.Contains(err.Error(), codes[33]) {
			t.Errorf("%s: error %v, want an error that contains %q", name, err, codes[33])
		}
	}
}

func TestSpaceNumberRefusesInvalidCodes(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		"", "a", "ab", "abcdefghijk", strings.Repeat("a", 22),
		"abc_ef", "abc-ef", "abc ef", "abcde\x00", "/bcdef", "abcde:", "@bcdef", "[bcdef", "`bcdef", "{bcdef", "abcd\u00e9", "\xff\xff\xff",
	} {
		for name, s := range spaces(t) {
			if length, n, err := s.Number(code); err == nil {
				t.Errorf("%s: %q is number %d of length %d, want an error", name, code, n, length)
			}
			if ranges, err := s.Ranges([]string{"abcdef", code}); err == nil {
				t.Errorf("%s: the ranges of %q are %v, want an error", name, code, ranges)
			}
		}
	}
}

func TestSpacePanicsOnInvalidNumbers(t *testing.T) {
	t.Parallel()
	for _, s := range spaces(t) {
		for _, r := range []Range{
			{MinLength - 1, 0, 1},
			{MaxLength + 1, 0, 1},
			{-1, 0, 1},
			{6, -1, 0},
			{6, Size(6), Size(6) + 1},
			{6, math.MaxInt64, math.MinInt64},
		} {
			mustPanic(t, func() { s.AppendCode(nil, r.Length, r.Lo) })
			mustPanic(t, func() { s.Codes(r) })
		}
		mustPanic(t, func() { s.Codes(Range{Length: 6, Lo: 2, Hi: 1}) })
		if got := s.Codes(Range{Length: 6, Lo: Size(6), Hi: Size(6)}); len(got) != 0 {
			t.Errorf("codes of an empty range: %v, want none", got)
		}
	}
	mustPanic(t, func() { Size(MinLength - 1) })
	mustPanic(t, func() { Size(MaxLength + 1) })
}

func TestSpaceIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	r := Range{Length: 6, Lo: 1000, Hi: 2000}
	for name, s := range spaces(t) {
		want := s.Codes(r)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i, code := range want {
					if got := string(s.AppendCode(nil, r.Length, r.Lo+int64(i))); got != code {
						t.Errorf("%s: code of %d = %q, want %q", name, r.Lo+int64(i), got, code)
					}
				}
				if got, err := s.Ranges(s.Codes(r)); err != nil || !cmp.Equal(got, []Range{r}) {
					t.Errorf("%s: ranges %v, %v, want %v", name, got, err, r)
				}
			})
		}
		wg.Wait()
	}
}

// spaces returns one space of each kind.
func spaces(t *testing.T) map[string]*Space {
	t.Helper()
	return map[string]*Space{
		"plain":   Plain(),
		"AES-128": newSpace(t, []byte("a secret of 16 B")),
		"AES-256": newSpace(t, []byte("a secret of 16 B and 16 B beyond")),
	}
}

func newSpace(t testing.TB, secret []byte) *Space {
	t.Helper()
	s, err := New(secret)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func drawSpace(t *rapid.T, all map[string]*Space) *Space {
	return all[rapid.SampledFrom(slices.Sorted(maps.Keys(all))).Draw(t, "space")]
}

// drawRange draws a range of 1 to most numbers of any code length.
func drawRange(t *rapid.T, most int64) Range {
	length := rapid.IntRange(MinLength, MaxLength).Draw(t, "length")
	size := rapid.Int64Range(1, most).Draw(t, "size of the range")
	lo := rapid.Int64Range(0, Size(length)-size).Draw(t, "lo")
	return Range{Length: length, Lo: lo, Hi: lo + size}
}

func mustRanges(t rapid.TB, s *Space, codes []string, want []Range) {
	t.Helper()
	got, err := s.Ranges(codes)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("ranges (-want +got):\n%s", diff)
	}
}
