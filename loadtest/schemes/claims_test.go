package schemes

import (
	"slices"
	"testing"
	"time"

	"keypool/loadtest/report"
	"keypool/loadtest/rounds"
	"keypool/loadtest/scenario"
)

// sound is an experiment with a scheme of each kind, and what ought to be found out of them.
func sound() *experiment {
	c := &Comparison{plan: full(), usual: true, started: time.Now(), found: make(map[string]*findings)}
	ordered := &codesFound{ascending: 1, guessed: guessed{few: 100, many: 100}}
	mixed := &codesFound{ascending: 0.5}
	served := fate{served: 600, local: 3 * time.Second, returned: true}
	refused := fate{refused: 600, answers: []string{"503, Retry-After 1"}, back: time.Second, returned: true}
	plant := func(name string, f findings) {
		i := slices.IndexFunc(all(), func(s scheme) bool { return s.name == name })
		c.schemes = append(c.schemes, all()[i])
		f.rate, f.p99, f.best = rounds.Series{1000}, rounds.Series{2}, rounds.Series{1}
		c.found[name] = &f
	}
	plant("redis-pool", findings{
		calls: rounds.Series{0.001}, codes: mixed, space: &spaceFound{attempts: []float64{1, 1, 1}, conflicts: make([]float64, 3)}, skipped: &skippedFound{each: 100},
		index:   &indexFound{bytes: 31},
		outages: []outageFound{{victimRedis, "none", served}, {victimRedis, "random", served}},
	})
	plant("redis-incr", findings{
		calls: rounds.Series{1}, codes: ordered, space: &spaceFound{attempts: []float64{1, 1, 1}, conflicts: make([]float64, 3)}, skipped: &skippedFound{},
		index:   &indexFound{bytes: 22},
		outages: []outageFound{{victimRedis, "none", refused}, {victimRedis, "random", fate{fallback: 600, returned: true}}},
	})
	plant("ticket", findings{calls: rounds.Series{1}, codes: ordered, outages: []outageFound{{victimEven, "none", served}, {victimTickets, "none", refused}}})
	plant("random", findings{calls: rounds.Series{0}, codes: mixed, space: &spaceFound{attempts: []float64{1, 2, 10}, conflicts: make([]float64, 3)}, outages: []outageFound{{victimPostgres, "none", refused}}})
	repeated := float64(sameURL+1) / 2
	plant("hash", findings{calls: rounds.Series{0}, codes: &codesFound{ascending: 0.5}, space: &spaceFound{attempts: []float64{1, 0, 0}, conflicts: make([]float64, 3), repeated: &repeated}})
	return &experiment{Comparison: c, Part: scenario.Part{}}
}

// Each thing that may be found fails the claim that it is about, and no other.
func TestClaimsCanFail(t *testing.T) {
	t.Parallel()
	incr := func(e *experiment) *findings { return e.found["redis-incr"] }
	pool := func(e *experiment) *findings { return e.found["redis-pool"] }
	much := &skippedFound{each: 1000}
	tests := []struct {
		name  string
		spoil func(*experiment)
		want  []string
	}{
		{"as it ought to be", func(*experiment) {}, nil},
		{"a strange code", func(e *experiment) { pool(e).codes = &codesFound{ascending: 0.5, strange: 1} }, []string{claimForm, claimClass}},
		{"a pool in order", func(e *experiment) { pool(e).codes = &codesFound{ascending: 1} }, []string{claimClass}},
		{"a pool that is guessed", func(e *experiment) { pool(e).codes = &codesFound{ascending: 0.5, guessed: guessed{many: 1}} }, []string{claimScatter}},
		{"a counter that is not guessed", func(e *experiment) { incr(e).codes = &codesFound{ascending: 1} }, []string{claimGuessed}},
		{"a pool that is asked for each key", func(e *experiment) { pool(e).calls = rounds.Series{1} }, []string{claimPooled}},
		{"a counter that is not asked", func(e *experiment) { incr(e).calls = rounds.Series{0} }, []string{claimAsked}},
		{"a counter that is asked three times", func(e *experiment) { incr(e).calls = rounds.Series{3} }, []string{claimAsked}},
		{"tickets that are asked now and then", func(e *experiment) { e.found["ticket"].calls = rounds.Series{1, 0.9, 0.9} }, []string{claimAsked}},
		{"chance that asks", func(e *experiment) { e.found["random"].calls = rounds.Series{0.5} }, []string{claimAlone}},
		{"a counter that meets conflicts", func(e *experiment) { incr(e).space.attempts[2] = 2 }, []string{claimOneAttempt}},
		{"chance that meets few", func(e *experiment) { e.found["random"].space.attempts[2] = 5 }, []string{claimChance}},
		{"a hash that does not repeat", func(e *experiment) { e.found["hash"].space.repeated = new(float64) }, []string{claimSameURL}},
		{"a pool that loses much", func(e *experiment) { pool(e).skipped = much }, []string{claimGapPooled}},
		{"a counter that loses much", func(e *experiment) { incr(e).skipped = much }, []string{claimGapAsked}},
		{"a pool without local keys", func(e *experiment) { pool(e).outages[0].local = 0 }, []string{claimLocal}},
		{"a counter that goes on alone", func(e *experiment) { incr(e).outages[0].local = 2 * time.Second }, []string{claimStop}},
		{"tickets that need both", func(e *experiment) { e.found["ticket"].outages[0].refused = 1 }, []string{claimOne}},
		{"a fallback that fails", func(e *experiment) { incr(e).outages[1].unknown = 1 }, []string{claimFallback}},
		{"a refusal without advice", func(e *experiment) { incr(e).outages[0].answers = []string{"503"} }, []string{claimPolite}},
		{"a server that hangs", func(e *experiment) { incr(e).outages[0].answers = []string{"no answer"} }, []string{claimPolite}},
		{"nothing at all", unmeasured, nil},
		{"one that stays away", func(e *experiment) { incr(e).outages[0].returned = false }, []string{claimComeBack}},
		{"what ascends and needs as much room", func(e *experiment) { incr(e).index.bytes = 31 }, []string{claimSmaller}},
		{"all that takes too long", func(e *experiment) { e.Comparison.started = time.Now().Add(-2 * Limit) }, []string{claimInTime}},
		{"likewise, and half the machine was busy", func(e *experiment) {
			e.Comparison.started, e.others = time.Now().Add(-2*Limit), Limit.Seconds()
		}, nil},
		{"what nobody said would be in time", func(e *experiment) {
			e.Comparison.started, e.usual = time.Now().Add(-2*Limit), false
		}, nil},
		{"one that takes long", func(e *experiment) { incr(e).outages[0].back = time.Minute }, []string{claimComeBack}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := sound()
			judge(e, tt.spoil)
			mustFail(t, e.Scenario, tt.want...)
			e.drawCodes()
			e.drawSpeed()
			e.drawSpace()
			e.drawCrashes()
			e.drawOutages()
			e.drawIndex()
		})
	}
}

// judge enters all claims and judges them by what was found, once it is spoilt.
func judge(e *experiment, spoil func(*experiment)) {
	e.enterCodes()
	e.enterSpeed()
	e.enterSpace()
	e.enterCrashes()
	e.enterOutages()
	e.enterIndex()
	spoil(e)
	e.enterSummary()
	e.judgeCodes()
	e.judgeSpeed()
	e.judgeSpace()
	e.judgeCrashes()
	e.judgeOutages()
	e.judgeIndex()
	e.judgeSummary()
}

// unmeasured has nothing found out of any scheme.
func unmeasured(e *experiment) {
	for _, s := range e.schemes {
		e.found[s.name] = &findings{}
	}
}

// What a claim is about was not there, so that it neither holds nor fails.
func TestClaimsAboutNothing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(*experiment)
		want  []string
	}{
		{"nothing was measured", unmeasured, []string{
			claimForm, claimClass, claimGuessed, claimScatter, claimPooled, claimAsked, claimAlone, claimOneAttempt, claimChance, claimSameURL,
			claimGapPooled, claimGapAsked, claimLocal, claimStop, claimOne, claimFallback, claimPolite, claimComeBack, claimSmaller,
		}},
		{"a counter alone", func(e *experiment) { e.schemes = e.schemes[1:2] }, []string{claimScatter}},
		{"all are served", func(e *experiment) {
			for _, f := range e.found {
				for i := range f.outages {
					f.outages[i].fate = fate{served: 600, returned: true}
				}
			}
		}, []string{claimPolite}},
	}
	for _, tt := range tests {
		e := sound()
		judge(e, tt.spoil)
		for _, c := range e.Claims {
			if slices.Contains(tt.want, c.Name) && c.Verdict != report.NotJudged {
				t.Errorf("%s: it is %s that %s: %s", tt.name, c.Verdict, c.Name, c.Why)
			}
		}
	}
}

// What was not measured is an empty cell, and never a figure.
func TestCellsOfNothing(t *testing.T) {
	t.Parallel()
	e := sound()
	unmeasured(e)
	for _, table := range []func() [][]string{
		func() [][]string { return e.overview().Rows },
		func() [][]string { return e.duel().Rows },
		func() [][]string { e.drawCodes(); return e.Tables[0].Rows },
		func() [][]string { e.drawSpeed(); return e.Tables[0].Rows },
	} {
		for _, row := range table() {
			for _, cell := range row[1:] {
				if cell != unknown {
					t.Errorf("%q in %q", cell, row)
				}
			}
		}
	}
}

// A perfect stranger reads which is which: the last table says what the findings say.
func TestDuel(t *testing.T) {
	t.Parallel()
	e := sound()
	e.found["redis-incr"].memory, e.found["redis-pool"].memory = &memoryFound{rest: 64}, &memoryFound{listed: 1616, keys: 200, rest: 2048}
	wants := map[string][2]string{
		"calls of Redis and ledger a creation":        {"1.00", "0.0010"},
		"creations/s on 64 connections":               {"1k/s", "1k/s"},
		"Redis killed: the scheme itself goes on for": {"0.0 s", "all the time"},
		"and then":                  {"503, Retry-After 1", unknown},
		"with the default fallback": {"100 % by the fallback", "100 % served"},
		"back by itself after":      {"1.0 s", "0.0 s"},
		"of the next 100 codes, named with 100 guesses":          {"100", "0"},
		"codes above the one before":                             {"100 %", "50 %"},
		"numbers skipped a crash of the server":                  {"0", "100"},
		"memory of Redis":                                        {"64 bytes in all", "8.08 bytes a key that waits, and 2,048 bytes for batches that servers hold"},
		"attempts a creation where 90 % of the codes are in use": {"1.00", "1.00"},
	}
	for _, row := range e.duel().Rows {
		if want, ok := wants[row[0]]; ok && (row[1] != want[0] || row[2] != want[1]) {
			t.Errorf("%q, want %q", row, want)
		}
		delete(wants, row[0])
	}
	if len(wants) > 0 {
		t.Errorf("nothing is said of %v", wants)
	}
}
