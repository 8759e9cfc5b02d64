package space

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"keypool/internal/testenv"
	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func acknowledged(n int) loadtest.Figures {
	return loadtest.Figures{Sent: int64(n), Acknowledged: int64(n)}
}

// drawn returns the record of a sound service at one level. For each link, the service drew codes from
// digits until a code was free. The random numbers are the same in every run.
func drawn(share float64, digits string) *record {
	p := plan{length: 3, tolerance: 0.03, fewest: 500}
	made := p.creations(share)
	m := measured{filled: int64(share * float64(sizeOf(3))), made: int64(made)}
	chance := rand.New(rand.NewPCG(3, 1))
	digit := func() byte { return digits[chance.IntN(len(digits))] }
	for range made {
		for {
			m.offered = append(m.offered, string([]byte{digit(), digit(), digit()}))
			if chance.Float64() >= share {
				break
			}
		}
	}
	m.reported = float64(len(m.offered)) / float64(made)
	ledger := measured{made: 10, offered: make([]string, 10)}
	links := loadtest.Verdict{Figures: acknowledged(made + 10), Findings: loadtest.Findings{Checked: int64(made) + 10}}
	return &record{plan: p, levels: []level{{share: share, random: m, ledger: ledger}}, links: &links}
}

func TestWrongObservationRefutesOnlyMatchingClaims(t *testing.T) {
	const fair = alphabet
	for _, tt := range []struct {
		name, digits string
		spoil        func(r *record, random, ledger *measured)
		want         []string
	}{
		{"service without faults", fair, func(_ *record, _, _ *measured) {}, nil},
		// A byte modulo 62 gives eight digits a quarter more often than the others.
		{"service prefers some digits", strings.Repeat(fair, 4) + fair[:8], func(_ *record, _, _ *measured) {}, []string{evenDraw}},
		{"service draws some codes twice", fair, func(_ *record, m, _ *measured) {
			m.offered = append(m.offered, m.offered[:len(m.offered)/20]...)
			m.reported = float64(len(m.offered)) / float64(m.made)
		}, []string{attemptsAt(0.5)}},
		{"service never draws a code in use", fair, func(_ *record, m, _ *measured) { m.offered, m.reported = m.offered[:m.made], 1 }, []string{attemptsAt(0.5)}},
		{"service reports too few attempts", fair, func(_ *record, m, _ *measured) { m.reported = 1 }, []string{reported}},
		{"service reports no attempts", fair, func(_ *record, m, _ *measured) { m.reported = 0 }, []string{reported}},
		{"links of failed creations are stored", fair, func(_ *record, m, l *measured) {
			m.offered, m.wasted, m.failed = append(m.offered, m.offered[:200]...), 200, 200
			l.offered, l.failed = append(l.offered, "", ""), 2
		}, nil},
		{"a failed creation takes two codes of the ledger", fair, func(_ *record, _, l *measured) {
			l.offered, l.failed = append(l.offered, "", ""), 1
		}, []string{"one attempt with FALLBACK=ledger"}},
		{"service reports the attempts of failed creations", fair, func(_ *record, m, _ *measured) { m.wasted, m.failed = 200, 200 }, []string{reported}},
		{"a code of the ledger is in use", fair, func(_ *record, _, l *measured) { l.offered = append(l.offered, "") }, []string{"one attempt with FALLBACK=ledger"}},
		{"service loses a link", fair, func(r *record, _, _ *measured) { r.links.Lost++ }, []string{measure.NoLostLink}},
		{"service loses a link and the run is interrupted", fair, func(r *record, _, _ *measured) { r.levels, r.links.Lost = nil, 1 }, []string{measure.NoLostLink}},
		{"service gives out a code twice", fair, func(r *record, _, _ *measured) { r.links.Twice++ }, []string{measure.NoCodeTwice}},
		{"service refuses a creation", fair, func(r *record, _, _ *measured) { r.links.Refused = 1 }, []string{measure.NoFailedCreation}},
		{"a creation that could not be sent", fair, func(r *record, _, _ *measured) { r.links.Unsent = 1 }, []string{measure.NoFailedCreation}},
	} {
		r := drawn(0.5, tt.digits)
		tt.spoil(r, &r.levels[0].random, &r.levels[0].ledger)
		if got := experiment.Failing(fallbackClaims(), r); !slices.Equal(got, tt.want) {
			t.Errorf("%s: the claims %q fail, want %q", tt.name, got, tt.want)
		}
		showFallback(r, &report.Experiment{})
	}
}

func TestEmptyRecordDecidesNoClaim(t *testing.T) {
	for _, c := range fallbackClaims() {
		if v := c.Judge(&record{}); v.Outcome != "" {
			t.Errorf("the outcome of the claim %q is %q for an empty record", c.Name, v.Outcome)
		}
	}
	for _, c := range sourceClaims() {
		if v := c.Judge(&attemptsRecord{}); v.Outcome != "" && v.Outcome != report.NotJudged {
			t.Errorf("the outcome of the claim %q is %q for an empty record", c.Name, v.Outcome)
		}
	}
	e := &report.Experiment{}
	showKeySources(&attemptsRecord{}, e)
	for _, row := range e.Tables[0].Rows {
		if strings.Join(row[1:], "") != strings.Repeat("–", len(row)-1) {
			t.Errorf("an unmeasured key source has the row %q, want no figures", row)
		}
	}
}

// The links that were made before the interruption are read back and judged.
func TestInterruptedRunReadsLinksBack(t *testing.T) {
	dir := t.TempDir()
	if err := testenv.Build(t.Context(), dir, "keypool/cmd/shortener"); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var got report.Experiment
	runner := &experiment.Runner{Done: func(e report.Experiment) { got = e }, Options: experiment.Options{
		Programs: dir, Scale: 0.1, Log: func(line string) { t.Log(line) }, Live: func(l experiment.Live) {
			if strings.HasPrefix(l.Phase, "f = 0.25, FALLBACK=random") {
				time.AfterFunc(500*time.Millisecond, interrupt)
			}
		},
	}}
	runner.Run(ctx, []*experiment.Experiment{fallback()})
	for _, name := range []string{measure.NoLostLink, measure.NoWrongLink, measure.NoCodeTwice} {
		i := slices.IndexFunc(got.Claims, func(c report.Claim) bool { return c.Name == name })
		if i < 0 {
			t.Fatalf("the report lacks the claim %q; error of the run: %s", name, got.Error)
		}
		if c := got.Claims[i]; c.Outcome != report.Held {
			t.Errorf("the outcome of the claim %q is %s: %s; error of the run: %s", name, c.Outcome, c.Why, got.Error)
		}
	}
}

func TestWrongNumberOfAttemptsRefutesOnlyMatchingClaim(t *testing.T) {
	for _, tt := range []struct {
		name  string
		at    measurement
		spoil float64
		want  []string
	}{
		{"service without faults", measurement{"redis-incr", at(0.5)}, 1, nil},
		{"a counter with conflicts", measurement{"redis-incr", at(0.9)}, 2, []string{"one attempt, however full the space is"}},
		{"random codes with too few conflicts", measurement{"random", at(0.9)}, 5, []string{"random codes take 1/(1-f) attempts"}},
		{"a hash that does not repeat", measurement{"hash", repeated}, 1, []string{"attempts of a hash for the same URL"}},
	} {
		r := &attemptsRecord{attempts: map[measurement]float64{
			{"redis-incr", at(0.9)}: 1, {"random", at(0.5)}: 2, {"random", at(0.9)}: 10, {"hash", repeated}: 50.5,
		}}
		r.attempts[tt.at] = tt.spoil
		if got := experiment.Failing(sourceClaims(), r); !slices.Equal(got, tt.want) {
			t.Errorf("%s: the claims %q fail, want %q", tt.name, got, tt.want)
		}
	}
}

// If more links are made than there are fillers, the share of codes in use grows. The prediction then
// grows too.
func TestPredictedAttemptsGrowWithShareOfCodesInUse(t *testing.T) {
	for filled, want := range map[int64]float64{50: 2, 2: 100.0 / 98, 1: (100.0/99 + 100.0/98) / 2, 0: (100.0/99 + 100.0/98) / 2} {
		m := measured{filled: filled, made: 2}
		if got := m.predicted(100); fmt.Sprintf("%.9f", got) != fmt.Sprintf("%.9f", want) {
			t.Errorf("%+v: %v attempts are predicted, want %v", m, got, want)
		}
	}
}

func TestUnlikelyValuesMatchChiSquaredTables(t *testing.T) {
	// These are 0.9999 quantiles of chi-squared, from tables.
	for freedom, want := range map[int]float64{10: 35.56, 100: 161.3} {
		if got := unlikely(freedom); got < 0.985*want || got > 1.015*want {
			t.Errorf("%d degrees of freedom: unlikely returns %.2f, want about %.2f", freedom, got, want)
		}
	}
}
