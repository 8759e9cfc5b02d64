package guess

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"keypool/loadtest/controls"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/report"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestControlsExist(t *testing.T) {
	for _, e := range Experiments() {
		for _, c := range e.Controls {
			for _, name := range c.Without {
				if _, err := controls.Find(name); err != nil {
					t.Errorf("%s: %v", e.Name, err)
				}
			}
		}
	}
}

// failures are the names of the claims that fail by a record.
func failures[R any](claims []experiment.Claim[R], r *R) (names []string) {
	for _, c := range claims {
		if c.Judge(r).Outcome == report.Failed {
			names = append(names, c.Name)
		}
	}
	return names
}

// scanned is the record of a sound scan: ten links of a counter from 1,000 on, and as many anywhere.
func scanned() *scanRecord {
	r := &scanRecord{plan: scanPlan{length: 3, links: 10, known: 2, reach: 3}}
	for n := range int64(10) {
		r.counter.codes = append(r.counter.codes, 1000+n)
		r.permuted.codes = append(r.permuted.codes, 20_000*n)
	}
	for _, v := range []*victim{&r.permuted, &r.counter} {
		v.known = map[int64]bool{v.codes[0]: true, v.codes[5]: true}
		for known := range v.known {
			v.guesses = append(v.guesses, known-3, known-2, known-1, known+1, known+2, known+3)
		}
		v.answers.misses = int64(len(v.guesses))
	}
	r.counter.answers = answers{hits: 9, misses: 3}
	r.alone, r.elapsed = answers{misses: 300, refused: 1000}, 2*time.Second
	return r
}

func TestEachFlawFailsItsClaim(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*scanRecord)
		want  []string
	}{
		{"sound", func(*scanRecord) {}, nil},
		{"more hits than chance", func(r *scanRecord) { r.permuted.answers = answers{hits: 2, misses: 10} }, []string{unguessed}},
		{"no hit anywhere", func(r *scanRecord) { r.counter.answers = answers{misses: 12} }, []string{walked}},
		{"refused guesses", func(r *scanRecord) { r.permuted.answers = answers{misses: 11, refused: 1} }, []string{answered}},
		{"an address without answers", func(r *scanRecord) { r.alone = answers{failed: 1300} }, []string{throttled}},
		{"an address that hardly misses", func(r *scanRecord) { r.alone = answers{hits: 1000, misses: 10} }, nil},
		{"an address without refusals", func(r *scanRecord) { r.alone.refused = 0 }, []string{throttled}},
		{"an address with a failed guess", func(r *scanRecord) { r.alone.failed = 1 }, []string{throttled}},
		{"an address with too many misses", func(r *scanRecord) { r.alone.misses = 400 }, []string{throttled}},
		{"a scan that was cut short", func(r *scanRecord) { r.elapsed, r.alone.misses = 0, 400 }, nil},
	} {
		r := scanned()
		tt.spoil(r)
		if got := failures(scanClaims(), r); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q fail, want %q", tt.name, got, tt.want)
		}
		showScan(r, &report.Experiment{})
	}
}

func TestLikely(t *testing.T) {
	// From tables of the Poisson distribution: P(X < lo) <= 0.0005 < P(X <= lo), and as much above hi.
	for mean, want := range map[float64][2]int64{0.0005: {0, 0}, 1: {0, 6}, 10: {2, 22}} {
		if lo, hi := likely(mean); lo != want[0] || hi != want[1] {
			t.Errorf("mean %v: from %d to %d, want %v", mean, lo, hi, want)
		}
	}
}

func TestGuessesAreNewAndExist(t *testing.T) {
	v := &victim{codes: []int64{1, 3}}
	v.aim(scanPlan{length: 3, known: 2, reach: 3})
	if slices.Sort(v.guesses); !slices.Equal(v.guesses, []int64{0, 2, 4, 5, 6}) {
		t.Errorf("guesses %v", v.guesses)
	}
}

func TestNumerals(t *testing.T) {
	for _, tt := range []struct {
		digits numerals
		number string
		code   string
	}{
		{base62, "0", "000000"},
		{base62, "1000000", "004C92"},
		{base62, "56800235583", "zzzzzz"},
		{base62, "9223372036854775807", "AzL8n0Y58m7"}, // the largest of 63 bits
		{base62, "340282366920938463463374607431768211455", "7n42DGM5Tflk9n8mt7Fhc7"},
		{base64url, "68719476735", "______"},
		{base64url, "1", "AAAAAB"},
	} {
		n, ok := tt.digits.number(tt.code)
		if !ok || n.String() != tt.number {
			t.Errorf("%s is %v, want %s", tt.code, n, tt.number)
			continue
		}
		if code, ok := tt.digits.code(n, len(tt.code)); !ok || code != tt.code {
			t.Errorf("%s is written %s, want %s", tt.number, code, tt.code)
		}
	}
	if n, ok := base62.number("ab-cde"); ok {
		t.Errorf("an unknown digit gives %v", n)
	}
	for _, n := range []*big.Int{big.NewInt(-1), base62.size(6)} {
		if code, ok := base62.code(n, 6); ok {
			t.Errorf("%v in six digits is %s", n, code)
		}
	}
}

func TestForms(t *testing.T) {
	for _, s := range sources.Compared() {
		c := formOf(s.Class)
		last, ok := c.code(new(big.Int).Sub(c.size, big.NewInt(1)))
		if !ok || !c.holds(last) {
			t.Errorf("%s: the last code is %q, ok %v", s.Name, last, ok)
		}
		for _, code := range []string{"", last + "0", last[1:], "%" + last[1:]} {
			if c.holds(code) {
				t.Errorf("%s: %q is a code", s.Name, code)
			}
		}
		if code, ok := c.code(c.size); ok {
			t.Errorf("%s: the code after the last is %q", s.Name, code)
		}
	}
	if formOf(sources.Time).holds("zzzzzzzzzzz") {
		t.Error("a number of more than 63 bits is a Snowflake")
	}
}

func TestPredictors(t *testing.T) {
	const someMachine = 7 << 12
	r := rand.New(rand.NewPCG(1, 1))
	size := base62.size(6).Int64()
	for _, tt := range []struct {
		name      string
		class     sources.Class
		number    func(i int64) int64
		few, many float64 // at least
		by        string  // "" when no code can be guessed
	}{
		{"a counter", sources.Counter, func(i int64) int64 { return 1000 + i }, 100, 100, "the next numbers"},
		{"every third", sources.Counter, func(i int64) int64 { return 3 * i }, 100, 100, "constant differences"},
		{"odd and even, far apart", sources.Counter, func(i int64) int64 { return 500_000*(i%2) + i }, 100, 100, "constant differences"},
		{"a counter with gaps", sources.Counter, func(i int64) int64 { return i + i/10*5 }, 60, 100, "the next numbers"},
		{"downwards", sources.Counter, func(i int64) int64 { return 1_000_000 - 7*i }, 100, 100, "constant differences"},
		{"a link every 3 ms", sources.Time, func(i int64) int64 { return (1_000_000+3*i)<<timeShift | someMachine }, 100, 100, "constant differences"},
		{"a link about every 3 ms", sources.Time, func(i int64) int64 { return (1_000_000+3*i+7919*i%5)<<timeShift | someMachine }, 30, 100, "the next milliseconds"},
		{"up to four in one", sources.Time, func(i int64) int64 { return (1_000_000+7*(i/4)+3*(i/4)%5)<<timeShift | someMachine | i%4 }, 10, 100, "the next milliseconds"},
		{"six random digits", sources.Random, func(int64) int64 { return r.Int64N(size) }, 0, 0, ""},
		{"11 random digits", sources.Time, func(int64) int64 { return r.Int64() }, 0, 0, ""},
	} {
		c := formOf(tt.class)
		var codes []string
		for i := range int64(2 * (seenCodes + nextCodes)) {
			code, ok := c.code(big.NewInt(tt.number(i)))
			if !ok {
				t.Fatalf("%s: %d is no number of the form", tt.name, tt.number(i))
			}
			codes = append(codes, code)
		}
		got := c.guessAll(codes)
		if got.few < tt.few || got.many < tt.many || got.by != tt.by || got.chance > 0 || tt.by == "" && got.many > 0 {
			t.Errorf("%s: %+v, want %v with few and %v with many guesses by %q", tt.name, got, tt.few, tt.many, tt.by)
		}
	}
}

// A guess counts once, and where it was made first.
func TestHits(t *testing.T) {
	guesses := make([]string, fewGuesses, manyGuesses)
	guesses[0], guesses[fewGuesses-1] = "a", "b"
	guesses = append(guesses, "c", "a")
	if few, all := hits(guesses, []string{"a", "b", "c", "d"}); few != 2 || all != 3 {
		t.Errorf("%v with the first guesses and %v with all, want 2 and 3", few, all)
	}
}

func TestCodesOfSources(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(map[string]*found)
		want  []string
	}{
		{"sound", func(map[string]*found) {}, nil},
		{"a code of another form", func(f map[string]*found) { f["redis-pool"].strange = 1 }, []string{"documented form", order}},
		{"a pool in order", func(f map[string]*found) { f["redis-pool"].ascending = 1 }, []string{order}},
		{"a pool that is guessed", func(f map[string]*found) { f["redis-pool"].guessed.many = 1 }, []string{unpredicted}},
		{"a counter that is not guessed", func(f map[string]*found) { f["redis-incr"].guessed.few = 0 }, []string{"counters are guessed"}},
		{"no counter", func(f map[string]*found) { delete(f, "redis-incr") }, nil},
		{"nothing", func(f map[string]*found) { clear(f) }, nil},
	} {
		r := &record{found: map[string]*found{
			"redis-incr": {ascending: 1, guessed: guessed{few: 100, many: 100}}, "redis-pool": {ascending: 0.5}, "hash": {ascending: 0.5},
		}}
		tt.spoil(r.found)
		if got := failures(sourceClaims(), r); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q fail, want %q", tt.name, got, tt.want)
		}
		e := &report.Experiment{}
		showKeySources(r, e)
		for _, row := range e.Tables[0].Rows {
			if known := strings.Join(row[1:], "") != strings.Repeat("–", len(row)-1); known != (r.found[row[0]] != nil) {
				t.Errorf("%s: row %q", tt.name, row)
			}
		}
	}
}
