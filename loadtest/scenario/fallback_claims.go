package scenario

import (
	"fmt"
	"math"

	"keypool/loadtest"
	"keypool/loadtest/report"
)

// Claims of the scenario, beside one for the attempts at each level.
const (
	claimTold   = "attempts told"
	claimEven   = "even draw"
	claimLedger = "ledger attempts"
)

// claimAttempts names the claim about a level.
func claimAttempts(share float64) string { return fmt.Sprintf("attempts at %g", share) }

func (f *fallbackRun) enterClaims() {
	f.Summary = "The pool gives nothing, so every code is drawn by chance, and drawn again while a link has it already. " +
		"With a share f of all codes in use that takes 1/(1-f) attempts on average: next to nothing in a young space, 18 in one that is " +
		"94.6 % full. FALLBACK=ledger reserves numbers instead, and needs one attempt at any time."
	f.Settings = map[string]string{
		"CODE_LENGTH": fmt.Sprint(f.length), "KEY_SOURCE": "redis-pool, with nobody at REDIS_URL", "DATABASE_URL": "sqlite:...",
	}
	f.Notes = []string{
		"Attempts are counted by the database: a trigger keeps each code that a row was to be inserted with. Another takes a row away " +
			"that only fills the space for each link that is made, so that f stands still.",
		fmt.Sprintf("At each level there are so many creations that chance alone is off by %.0f %% less than once in a thousand runs.", 100*f.tolerance),
	}
	for _, share := range f.shares {
		f.Claim(claimAttempts(share), fmt.Sprintf("With %.4g %% of the codes in use, a creation takes 1/(1-f) attempts.", 100*share), "attempts")
	}
	f.Claim(claimLedger, "With FALLBACK=ledger a creation takes one attempt, however full the space is.", "attempts")
	f.Claim(claimEven, "The fallback draws every character as often as any other.", "chi-squared")
	f.Claim(claimTold, "The service tells as many attempts as the database saw.", "attempts")
	f.claimAccounts()
}

// judgeStages judges by the levels that were measured to their end, and the accounts by all.
func (f *fallbackRun) judgeStages(stages []stage) {
	var all loadtest.Verdict
	var drawn draws
	worst := 1.0 // attempts with the ledger
	told := &measured{}
	whole := 0
	for i := range stages {
		l := &stages[i]
		all = together(all, l.ledger.verdict, l.random.verdict)
		if l.cut {
			f.CannotJudge(claimAttempts(l.share), "the run was cut short")
			continue
		}
		whole++
		drawn.add(l.random.offered)
		if attempts := l.ledger.attempts(); math.Abs(attempts-1) > math.Abs(worst-1) {
			worst = attempts
		}
		if l.random.off() >= told.off() {
			told = &l.random
		}
		f.Within(claimAttempts(l.share), l.random.predicted(f.crowd.size()), l.random.attempts(), f.tolerance)
	}
	f.judgeAccounts(all)
	f.excuseUnsent(stages, all.Failed())
	if whole == 0 {
		return
	}
	f.Within(claimLedger, 1, worst, 0)
	f.Within(claimTold, told.attempts(), told.told, 0.001)
	chi2, freedom := drawn.unevenness()
	f.AtMost(claimEven, unlikely(freedom), chi2)
}

// excuseUnsent takes back that creations failed when all that did found no room with the
// sender, and other programs took the processors each time. What was refused, unanswered or
// not to be sent at all stays a failure.
func (f *fallbackRun) excuseUnsent(stages []stage, failed int64) {
	unsent, others := int64(0), 1.0
	for i := range stages {
		for _, m := range []*measured{&stages[i].ledger, &stages[i].random} {
			if m.crowded > 0 {
				unsent += m.crowded
				others = min(others, m.others)
			}
		}
	}
	if failed == unsent {
		f.Excuse(claimServed, others)
	}
}

// off is how far what the server tells is from what the store saw, as a share of that.
func (m *measured) off() float64 {
	if len(m.offered) == 0 {
		return 0
	}
	return math.Abs(m.told/m.attempts() - 1)
}

// together is one verdict over several loads.
func together(verdicts ...loadtest.Verdict) (sum loadtest.Verdict) {
	for i := range verdicts {
		v := &verdicts[i]
		sum.Sent += v.Sent
		sum.Acknowledged += v.Acknowledged
		sum.Refused += v.Refused
		sum.Unknown += v.Unknown
		sum.Unsent += v.Unsent
		sum.Checked += v.Checked
		sum.Lost += v.Lost
		sum.Wrong += v.Wrong
		sum.Twice += v.Twice
		sum.Unread += v.Unread
		sum.Reports = append(sum.Reports, v.Reports...)
	}
	return sum
}

// show draws what was measured.
func (f *fallbackRun) show(stages []stage) {
	law := report.Series{Name: "1/(1-f)", Predicted: true}
	for share := 0.0; share < 0.95; share += 0.01 {
		law.XY = append(law.XY, [2]float64{share, 1 / (1 - share)})
	}
	random := report.Series{Name: "FALLBACK=random", Points: true}
	ledger := report.Series{Name: "FALLBACK=ledger", Points: true}
	slow := report.Series{Name: "predicted: attempts of one in a hundred, a commit each", Predicted: true}
	p99, p50 := report.Series{Name: "p99"}, report.Series{Name: "p50"}
	table := report.Table{
		Title:   "Level by level",
		Columns: []string{"f", "1/(1-f)", "attempts", "apart", "told by the service", "with FALLBACK=ledger", "creations", "p50 ms", "p99 ms"},
	}
	for i := range stages {
		l := &stages[i]
		if l.cut {
			continue
		}
		m, want := &l.random, l.random.predicted(f.crowd.size())
		random.XY = append(random.XY, [2]float64{l.share, m.attempts()})
		ledger.XY = append(ledger.XY, [2]float64{l.share, l.ledger.attempts()})
		slow.XY = append(slow.XY, [2]float64{want, attempts99(l.share) * milliseconds(m.commit)})
		p99.XY = append(p99.XY, [2]float64{want, milliseconds(m.latency.P99)})
		p50.XY = append(p50.XY, [2]float64{want, milliseconds(m.latency.P50)})
		table.Rows = append(table.Rows, []string{
			fmt.Sprintf("%g", l.share), fmt.Sprintf("%.4f", want), fmt.Sprintf("%.4f", m.attempts()),
			fmt.Sprintf("%+.2f %%", 100*(m.attempts()/want-1)), fmt.Sprintf("%.4f", m.told), fmt.Sprintf("%.2f", l.ledger.attempts()),
			fmt.Sprint(m.verdict.Acknowledged), fmt.Sprintf("%.1f", milliseconds(m.latency.P50)), fmt.Sprintf("%.1f", milliseconds(m.latency.P99)),
		})
	}
	share := report.Axis{Label: "share f of all codes in use"}
	f.Charts = []report.Chart{
		{
			Title: "Attempts per creation grow as 1/(1-f); those of the ledger do not", X: share,
			Y: report.Axis{Label: "attempts per creation", Log: true}, Series: []report.Series{law, random, ledger},
		},
		{
			Title: "What the attempts cost in time", X: report.Axis{Label: "attempts per creation", Log: true},
			Y: report.Axis{Label: "latency of a creation", Unit: "ms", Log: true}, Series: []report.Series{slow, p99, p50},
		},
	}
	f.Tables = []report.Table{table}
}
