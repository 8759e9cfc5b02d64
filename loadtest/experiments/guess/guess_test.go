package guess

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scanned returns the record of a sound scan. The service with a plain counter has ten links with
// consecutive numbers from 1,000. The permuted service has ten links with distant numbers.
func scanned() *scanRecord {
	r := &scanRecord{plan: scanPlan{length: 3, links: 10, known: 2, reach: 3}}
	for n := range int64(10) {
		r.counter.codes = append(r.counter.codes, 1000+n)
		r.permuted.codes = append(r.permuted.codes, 20_000*n)
	}
	for _, v := range []*victim{&r.permuted, &r.counter} {
		for _, known := range []int64{v.codes[0], v.codes[5]} {
			v.guesses = append(v.guesses, known-3, known-2, known-1, known+1, known+2, known+3)
		}
		v.answers.misses = int64(len(v.guesses))
	}
	r.counter.answers = answers{hits: 9, misses: 3}
	r.alone, r.elapsed = answers{misses: 300, refused: 1000}, 2*time.Second
	return r
}

func TestWrongObservationRefutesOnlyMatchingClaims(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*scanRecord)
		want  []string
	}{
		{"sound", func(*scanRecord) {}, nil},
		{"more hits than chance", func(r *scanRecord) { r.permuted.answers = answers{hits: 2, misses: 10} }, []string{unguessed}},
		{"no hits at the counter", func(r *scanRecord) { r.counter.answers = answers{misses: 12} }, []string{walked}},
		{"refused guesses", func(r *scanRecord) { r.permuted.answers = answers{misses: 11, refused: 1} }, []string{answered}},
		{"an address without answers", func(r *scanRecord) { r.alone = answers{failed: 1300} }, []string{throttled}},
		{"an address with few misses", func(r *scanRecord) { r.alone = answers{hits: 1000, misses: 10} }, nil},
		{"an address without refusals", func(r *scanRecord) { r.alone.refused = 0 }, []string{throttled}},
		{"an address with a failed guess", func(r *scanRecord) { r.alone.failed = 1 }, []string{throttled}},
		{"an address with too many misses", func(r *scanRecord) { r.alone.misses = 400 }, []string{throttled}},
		{"an interrupted scan", func(r *scanRecord) { r.elapsed, r.alone.misses = 0, 400 }, nil},
	} {
		r := scanned()
		tt.spoil(r)
		if got := experiment.Failing(scanClaims(), r); !slices.Equal(got, tt.want) {
			t.Errorf("%s: the claims %q fail, want %q", tt.name, got, tt.want)
		}
		showScan(r, &report.Experiment{})
	}
}

func TestBoundsOfFunctionLikelyMatchPoissonTables(t *testing.T) {
	// From tables of the Poisson distribution: P(X < lo) <= 0.0005 < P(X <= lo), and P(X > hi) <= 0.0005 < P(X >= hi).
	for mean, want := range map[float64][2]int64{0.0005: {0, 0}, 1: {0, 6}, 10: {2, 22}} {
		if lo, hi := likely(mean); lo != want[0] || hi != want[1] {
			t.Errorf("mean %v: likely returns the bounds %d and %d, want %v", mean, lo, hi, want)
		}
	}
}

func TestScanGuessesNeighboursOfKnownCodesOnce(t *testing.T) {
	v := &victim{codes: []int64{1, 3}}
	v.aim(scanPlan{length: 3, known: 2, reach: 3})
	if slices.Sort(v.guesses); !slices.Equal(v.guesses, []int64{0, 2, 4, 5, 6}) {
		t.Errorf("aim lists the guesses %v, want [0 2 4 5 6]", v.guesses)
	}
}

func TestPredictorsGuessOnlyOrderedCodes(t *testing.T) {
	const someMachine = 7 << 12
	r := rand.New(rand.NewPCG(1, 1))
	size := sources.FormOfLength(6).Size.Int64()
	for _, tt := range []struct {
		name      string
		class     sources.Class
		number    func(i int64) int64
		few, many float64 // least number of guessed codes
		by        string  // name of the best predictor, "" if no code can be guessed
	}{
		{"a counter", sources.Counter, func(i int64) int64 { return 1000 + i }, 100, 100, "the next numbers"},
		{"every third number", sources.Counter, func(i int64) int64 { return 3 * i }, 100, 100, "constant differences"},
		{"odd and even numbers that are far apart", sources.Counter, func(i int64) int64 { return 500_000*(i%2) + i }, 100, 100, "constant differences"},
		{"a counter with gaps", sources.Counter, func(i int64) int64 { return i + i/10*5 }, 60, 100, "the next numbers"},
		{"a descending counter", sources.Counter, func(i int64) int64 { return 1_000_000 - 7*i }, 100, 100, "constant differences"},
		{"a link every 3 ms", sources.Time, func(i int64) int64 { return (1_000_000+3*i)<<timeShift | someMachine }, 100, 100, "constant differences"},
		{"a link about every 3 ms", sources.Time, func(i int64) int64 { return (1_000_000+3*i+7919*i%5)<<timeShift | someMachine }, 30, 100, "the next milliseconds"},
		{"four links in a millisecond", sources.Time, func(i int64) int64 { return (1_000_000+7*(i/4)+3*(i/4)%5)<<timeShift | someMachine | i%4 }, 10, 100, "the next milliseconds"},
		{"six random digits", sources.Random, func(int64) int64 { return r.Int64N(size) }, 0, 0, ""},
		{"11 random digits", sources.Time, func(int64) int64 { return r.Int64() }, 0, 0, ""},
	} {
		c := sources.FormOf(tt.class)
		var codes []string
		for i := range int64(2 * (seenCodes + nextCodes)) {
			codes = append(codes, c.Code(big.NewInt(tt.number(i))))
		}
		got := guessAll(c, codes)
		if got.few < tt.few || got.many < tt.many || got.by != tt.by || tt.by == "" && got.many > 0 {
			t.Errorf("%s: the result is %+v, want %v hits with few and %v hits with many guesses by %q", tt.name, got, tt.few, tt.many, tt.by)
		}
	}
}

func TestRepeatedGuessCountsOnceAtFirstPosition(t *testing.T) {
	guesses := make([]string, fewGuesses, manyGuesses)
	guesses[0], guesses[fewGuesses-1] = "a", "b"
	guesses = append(guesses, "c", "a")
	if few, all := hits(guesses, []string{"a", "b", "c", "d"}); few != 2 || all != 3 {
		t.Errorf("%v hits with the first guesses and %v with all, want 2 and 3", few, all)
	}
}

func TestWrongFiguresOfKeySourceRefuteOnlyClaimsAboutThem(t *testing.T) {
	const counter, pool = 0, 1
	for _, tt := range []struct {
		name  string
		spoil func([]found) []found
		want  []string
	}{
		{"sound", func(all []found) []found { return all }, nil},
		{"a code of another form", func(all []found) []found { all[pool].strange = 1; return all }, []string{"codes have the documented form", order}},
		{"a pool with ascending codes", func(all []found) []found { all[pool].ascending = 1; return all }, []string{order}},
		{"a pool whose codes are guessed", func(all []found) []found { all[pool].guessed.many = 1; return all }, []string{unpredicted}},
		{"a counter whose codes are not guessed", func(all []found) []found { all[counter].guessed.few = 0; return all }, []string{"codes of counters can be guessed"}},
		{"no counter", func(all []found) []found { return all[pool:] }, nil},
		{"nothing", func([]found) []found { return nil }, nil},
	} {
		r := &record{found: tt.spoil([]found{
			counter: {class: sources.Counter, ascending: 1, guessed: guessed{few: 100, many: 100}},
			pool:    {class: sources.Random, ascending: 0.5},
			2:       {class: sources.Hash, ascending: 0.5},
		})}
		if got := experiment.Failing(sourceClaims(), r); !slices.Equal(got, tt.want) {
			t.Errorf("%s: the claims %q fail, want %q", tt.name, got, tt.want)
		}
		showKeySources(r, &report.Experiment{})
	}
}

func TestLookInspectsOrderAndFormOfCodes(t *testing.T) {
	var entries []loadtest.Entry
	for n := range codeCount {
		code := sources.FormOfLength(6).Code(big.NewInt(int64(n)))
		entries = append(entries, loadtest.Entry{Outcome: loadtest.Outcome{State: loadtest.Acknowledged, Code: code}}, loadtest.Entry{Outcome: loadtest.Outcome{State: loadtest.Refused}})
	}
	f := look(&sources.Source{Class: sources.Counter}, entries)
	if !f.fitsClass() || f.longest != 6 || f.byURL != 0 || f.guessed.few != 100 {
		t.Errorf("look returns %+v for the codes of a counter", f)
	}
	entries[0].Code = "foreign"
	if f := look(&sources.Source{Class: sources.Counter}, entries); f.strange != 1 {
		t.Errorf("look returns %+v for a code of another form, want one strange code", f)
	}
}
