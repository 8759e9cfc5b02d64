package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"keypool/kgs/codespace"
	"keypool/loadtest"
	"keypool/loadtest/report"
)

func TestFallback(t *testing.T) {
	t.Parallel()
	// More creations than the tolerance asks for: by chance an honest service is beyond it once in ten thousand runs.
	s := Scenario{Name: "fallback", Run: fallbackPlan{length: 3, shares: shares(), tolerance: 0.2, fewest: 440, ledger: 50}.run}
	got := s.Execute(t.Context(), quiet())
	mustHold(t, got)
	if len(got.Charts) != 2 || len(got.Tables[0].Rows) != len(shares()) {
		t.Errorf("%d charts, %d levels", len(got.Charts), len(got.Tables[0].Rows))
	}
}

// What was made until the run was ended is read back.
func TestFallbackEndsEarly(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run := quiet()
	run.Live = func(l Live) {
		if l.Rate > 0 {
			cancel()
		}
	}
	plan := fallbackPlan{length: 3, shares: []float64{0.0002}, tolerance: 0.2, fewest: 1 << 30, ledger: 1 << 30}
	got := Scenario{Name: "fallback", Run: plan.run}.Execute(ctx, run)
	p := Part{got}
	if c := p.find(claimKept); c.Verdict != report.Held {
		t.Errorf("%s: %s: %s; %s", c.Name, c.Verdict, c.Why, got.Error)
	}
}

// drawn is what an honest service would leave behind at a level, without running one: made
// links, each after as many draws from digits as it takes to find a code that is free. Its
// chance is the same each time, for it is the judge that is tested.
func drawn(share float64, made int, digits string) stage {
	size := codespace.Size(3)
	m := measured{filled: int64(share * float64(size)), verdict: verdictOf(made)}
	m.leaving = m.filled
	chance := rand.New(rand.NewPCG(3, 1))
	for range made {
		for {
			code := []byte{digits[chance.IntN(len(digits))], digits[chance.IntN(len(digits))], digits[chance.IntN(len(digits))]}
			m.offered = append(m.offered, string(code))
			if chance.Float64() >= share {
				break
			}
		}
	}
	m.told = m.attempts()
	ledger := measured{verdict: verdictOf(10), offered: make([]string, 10)}
	return stage{share: share, random: m, ledger: ledger}
}

func verdictOf(made int) loadtest.Verdict {
	n := int64(made)
	return loadtest.Verdict{Figures: loadtest.Figures{Sent: n, Acknowledged: n}, Findings: loadtest.Findings{Checked: n}}
}

// Each thing that a service may do wrong fails the claim that it is about, and no other.
func TestFallbackClaimsCanFail(t *testing.T) {
	t.Parallel()
	attempts := claimAttempts(0.5)
	const fair = codespace.Alphabet
	tests := []struct {
		name   string
		digits string
		spoil  func(*stage)
		want   []string
	}{
		{"honest", fair, func(*stage) {}, nil},
		// A byte modulo 62 favours eight digits by a quarter.
		{"biased", strings.Repeat(fair, 4) + fair[:8], func(*stage) {}, []string{claimEven}},
		{"draws in vain", fair, func(l *stage) {
			l.random.offered = append(l.random.offered, l.random.offered[:len(l.random.offered)/20]...)
			l.random.told = l.random.attempts()
		}, []string{attempts}},
		{"never meets a code that is in use", fair, func(l *stage) {
			l.random.offered = l.random.offered[:l.random.verdict.Acknowledged]
			l.random.told = 1
		}, []string{attempts}},
		{"tells less than it does", fair, func(l *stage) { l.random.told = 1 }, []string{claimTold}},
		{"tells nothing", fair, func(l *stage) { l.random.told = 0 }, []string{claimTold}},
		{"ledger conflicts", fair, func(l *stage) { l.ledger.offered = append(l.ledger.offered, "") }, []string{claimLedger}},
		{"loses a link", fair, func(l *stage) { l.random.verdict.Lost++ }, []string{claimKept}},
		{"loses a link of a level that is cut short", fair, func(l *stage) {
			*l = stage{share: l.share, ledger: l.ledger, cut: true}
			l.ledger.verdict.Lost++
		}, []string{claimKept}},
		{"refuses a creation beside a hog", fair, func(l *stage) {
			l.ledger.verdict.Refused, l.ledger.others = 1, 0.5
		}, []string{claimServed}},
		{"a sender without room", fair, func(l *stage) {
			l.ledger.verdict.Unsent, l.ledger.crowded = 1, 1
		}, []string{claimServed}},
		{"a sender without room beside a hog", fair, func(l *stage) {
			l.ledger.verdict.Unsent, l.ledger.crowded, l.ledger.others = 1, 1, 0.5
		}, nil},
		{"a sender without room beside a hog, and one that was refused", fair, func(l *stage) {
			l.ledger.verdict.Unsent, l.ledger.crowded, l.ledger.others = 1, 1, 0.5
			l.random.verdict.Refused = 1
		}, []string{claimServed}},
		{"gives a code twice", fair, func(l *stage) { l.ledger.verdict.Twice++ }, []string{claimOnce}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			plan := fallbackPlan{length: 3, shares: shares(), tolerance: 0.03}
			f := fallbackRun{fallbackPlan: plan, crowd: &crowd{length: 3}}
			f.enterClaims()
			l := drawn(0.5, plan.creations(0.5), tt.digits)
			tt.spoil(&l)
			f.judgeStages([]stage{l})
			mustFail(t, f.Scenario, tt.want...)
		})
	}
}

// Where more links are made than there were codes that could go, the share grows, and with
// it what is predicted.
func TestPredictedAttempts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		filled, leaving int64
		want            float64
	}{
		{50, 50, 2},
		{0, 0, (100.0/99 + 100.0/98) / 2},
		{50, 2, (100.0/50 + 100.0/50) / 2},
		{50, 1, (100.0/50 + 100.0/49) / 2},
	} {
		m := measured{filled: tt.filled, leaving: tt.leaving, verdict: verdictOf(2)}
		if got := m.predicted(100); fmt.Sprintf("%.9f", got) != fmt.Sprintf("%.9f", tt.want) {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

func TestUnlikely(t *testing.T) {
	t.Parallel()
	// The quantile at 0.9999 of chi-squared, from tables.
	for freedom, want := range map[int]float64{10: 35.56, 100: 161.3} {
		if got := unlikely(freedom); got < 0.985*want || got > 1.015*want {
			t.Errorf("%d degrees of freedom: %.2f, want about %.2f", freedom, got, want)
		}
	}
}
