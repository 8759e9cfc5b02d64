package schemes

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// planted are codes of a class whose numbers are planted.
func planted(t *testing.T, c class, number func(i int64) int64) []string {
	t.Helper()
	var codes []string
	for i := range int64(2 * (seenCodes + nextCodes)) {
		code, ok := c.code(big.NewInt(number(i)))
		if !ok {
			t.Fatalf("%d is no number of class %s", number(i), c.name)
		}
		codes = append(codes, code)
	}
	return codes
}

func TestPredictors(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	draw := classOf("random").number
	tests := []struct {
		name      string
		class     string
		number    func(i int64) int64
		few, many float64 // at the least
		by        string  // "" when nothing is to be guessed
	}{
		{"a counter", "counter", func(i int64) int64 { return 1000 + i }, 100, 100, "the next numbers"},
		{"every third", "counter", func(i int64) int64 { return 3 * i }, 100, 100, "constant differences"},
		{"odd and even, far apart", "counter", func(i int64) int64 { return 500_000*(i%2) + i }, 100, 100, "constant differences"},
		{"a counter with gaps", "counter", func(i int64) int64 { return i + i/10*5 }, 60, 100, "the next numbers"},
		{"downwards", "counter", func(i int64) int64 { return 1_000_000 - 7*i }, 100, 100, "constant differences"},
		{"a link every 3 ms", "time", func(i int64) int64 { return (1_000_000+3*i)<<timeShift | someMachine<<machineShift }, 100, 100, "constant differences"},
		{"a link every 3 ms or so", "time", func(i int64) int64 {
			return (1_000_000+3*i+7919*i%5)<<timeShift | someMachine<<machineShift
		}, 30, 100, "the next milliseconds"},
		{"up to four in one", "time", func(i int64) int64 {
			return (1_000_000+7*(i/4)+3*(i/4)%5)<<timeShift | someMachine<<machineShift | i%4
		}, 10, 100, "the next milliseconds"},
		{"six digits of chance", "random", func(int64) int64 { return draw(0).Int64() }, 0, 0, ""},
		{"11 digits of chance", "time", func(int64) int64 { return r.Int64() }, 0, 0, ""},
	}
	for _, tt := range tests {
		c := classOf(tt.class)
		got := c.guessAll(planted(t, c, tt.number))
		if got.few < tt.few || got.many < tt.many || got.by != tt.by || got.chance > 0 {
			t.Errorf("%s: %+v, want %v with few and %v with many guesses by %q", tt.name, got, tt.few, tt.many, tt.by)
		}
		if tt.by == "" && got.many > 0 {
			t.Errorf("%s: %v codes of chance were guessed", tt.name, got.many)
		}
	}
}

// A guess counts once, and where it was made first.
func TestHits(t *testing.T) {
	t.Parallel()
	guesses := make([]string, fewGuesses, manyGuesses)
	guesses[0], guesses[fewGuesses-1] = "a", "b"
	guesses = append(guesses, "c", "a")
	if few, all := hits(guesses, []string{"a", "b", "c", "d"}); few != 2 || all != 3 {
		t.Errorf("%v with the first guesses and %v with all, want 2 and 3", few, all)
	}
}

func TestClasses(t *testing.T) {
	t.Parallel()
	for _, c := range classes() {
		last := ""
		for i := range int64(1000) {
			code, ok := c.code(c.number(i))
			if !ok || !c.holds(code) || (c.ascending && code <= last) {
				t.Fatalf("class %s: code %d is %s after %s, ok %v", c.name, i, code, last, ok)
			}
			last = code
		}
		for _, code := range []string{"", last + "0", last[1:], "%" + last[1:]} {
			if c.holds(code) {
				t.Errorf("class %s holds %q", c.name, code)
			}
		}
	}
	if classOf("time").holds("zzzzzzzzzzz") {
		t.Error("a Snowflake of more than 63 bits is one")
	}
}
