package space

import (
	"fmt"
	"math"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// Names of claims that must fail in a control.
const (
	reported = "reported attempts"
	evenDraw = "characters drawn equally often"
)

// attemptsAt returns the name of the claim about the attempts while the given share of all codes is in use.
func attemptsAt(share float64) string {
	return fmt.Sprintf("attempts with %.4g %% of codes in use", 100*share)
}

func fallback() *experiment.Experiment {
	return experiment.Define(experiment.Definition[record]{
		Name: "space/fallback", Title: "Attempts of the fallback as the space fills",
		Summary: "The pool gives no keys, so the fallback draws every code at random. If another link has the code, the fallback draws again. With a share f " +
			"of all codes in use, this takes 1/(1-f) attempts on average: about one in an almost empty space, and about 18.5 in a space that is " +
			"94.6 % full. FALLBACK=ledger reserves numbers instead and always needs one attempt.",
		Suites: []experiment.Suite{experiment.Nightly, experiment.Full}, Alone: true,
		Run: runFallback, Claims: fallbackClaims(), Show: showFallback,
		Controls: []experiment.Control{
			{Without: []string{"store"}, Refutes: measure.NoLostLink, AlsoRefutes: []string{reported}},
			{Without: []string{"conflict"}, Refutes: measure.NoWrongLink, AlsoRefutes: []string{attemptsAt(0.9)}},
			{Without: []string{"even"}, Refutes: evenDraw},
		},
	})
}

func fallbackClaims() (claims []experiment.Claim[record]) {
	on := func(name, text, unit string, judge func(*record) experiment.Verdict) {
		claims = append(claims, experiment.Claim[record]{Name: name, Text: text, Unit: unit, Kind: report.Correctness, Judge: judge})
	}
	for _, share := range levels() {
		text := fmt.Sprintf("If %.4g %% of the codes are in use (the share f), a creation tries 1/(1-f) random codes on average.", 100*share)
		on(attemptsAt(share), text, "attempts", func(r *record) experiment.Verdict {
			return r.every(func(l *level) experiment.Verdict {
				if l.share != share {
					return experiment.Verdict{}
				}
				want := l.random.predicted(sizeOf(r.plan.length))
				return experiment.Within(want, l.random.attempts(want), r.plan.tolerance)
			})
		})
	}
	on("one attempt with FALLBACK=ledger", "With FALLBACK=ledger, a creation tries only one code, however full the space is.", "attempts", func(r *record) experiment.Verdict {
		return r.every(func(l *level) experiment.Verdict { return experiment.Within(1, l.ledger.attempts(1), 0) })
	})
	on(evenDraw, "The fallback draws every character equally often.", "chi-squared", judgeDraw)
	on(reported, "For the creations that succeed, the server reports as many attempts as the database counts. An attempt is one code that a creation tries.", "attempts", func(r *record) experiment.Verdict {
		return r.every(func(l *level) experiment.Verdict {
			m := &l.random
			return experiment.Within(float64(len(m.offered)-m.wasted)/float64(m.made), m.reported, 0.001)
		})
	})
	return append(claims, measure.Accounts("No creation fails.", func(r *record) *loadtest.Verdict { return r.links })...)
}

// every returns the verdict on the first level that fails. If no level fails, it returns the verdict
// on the last level that is judged.
func (r *record) every(judge func(*level) experiment.Verdict) (v experiment.Verdict) {
	for i := range r.levels {
		if this := judge(&r.levels[i]); this.Outcome != "" {
			v = this
		}
		if v.Outcome == report.Failed {
			break
		}
	}
	return v
}

func judgeDraw(r *record) experiment.Verdict {
	if len(r.levels) == 0 {
		return experiment.Verdict{}
	}
	var codes []string
	for i := range r.levels {
		codes = append(codes, r.levels[i].random.offered...)
	}
	chi2, freedom := unevenness(codes, r.plan.length)
	bound := unlikely(freedom)
	return experiment.AtMost(bound, chi2, "chi-squared is %.4g with %d degrees of freedom; if every character is drawn equally often, chi-squared exceeds %.4g in one of ten thousand runs", chi2, freedom, bound)
}

// unevenness returns Pearson's chi-squared against an even draw of every character at each position,
// and its degrees of freedom. Without codes, chi2 is NaN.
func unevenness(codes []string, length int) (chi2 float64, freedom int) {
	want := float64(len(codes)) / float64(len(alphabet))
	for place := range length {
		var drawn [256]int
		for _, code := range codes {
			if place < len(code) {
				drawn[code[place]]++
			}
		}
		for _, c := range []byte(alphabet) {
			chi2 += math.Pow(float64(drawn[c])-want, 2) / want
		}
	}
	return chi2, length * (len(alphabet) - 1)
}

// unlikely returns the value that chi-squared exceeds with a probability of 1/10,000. It uses the
// approximation of Wilson and Hilferty (1931).
func unlikely(freedom int) float64 {
	const z = 3.719 // quantile of the normal distribution
	n := 2 / (9 * float64(freedom))
	return float64(freedom) * math.Pow(1-n+z*math.Sqrt(n), 3)
}

func showFallback(r *record, e *report.Experiment) {
	e.Settings = map[string]string{
		"CODE_LENGTH": fmt.Sprint(r.plan.length), "KEY_SOURCE": "redis-pool; nothing listens at REDIS_URL", "KGS_PERMUTE": "false", "DATABASE_URL": "sqlite:...",
	}
	e.Notes = []string{
		"The database counts the attempts. A trigger records each code that the server tries to insert. Before the creations, the experiment " +
			"inserts links that only fill the space. For each new link, another trigger removes one of these links, so f is constant.",
		fmt.Sprintf("The number of creations at each level is so large that chance alone causes a difference of more than %.0f %% from the prediction in fewer than one of a thousand runs.", 100*r.plan.tolerance),
		fmt.Sprintf("The latencies are those of %d clients. Each client waits for an answer before its next creation.", width),
	}
	table := report.Table{Title: "Attempts and latency by level", Columns: []string{
		"share f of codes in use", "predicted attempts, 1/(1-f)", "attempts", "difference", "attempts reported by the server", "attempts with FALLBACK=ledger", "creations", "p99 in ms",
	}}
	random, ledger := report.Series{Name: "FALLBACK=random", Points: true}, report.Series{Name: "FALLBACK=ledger", Points: true}
	for i := range r.levels {
		l := &r.levels[i]
		want, one := l.random.predicted(sizeOf(r.plan.length)), l.ledger.attempts(1)
		attempts := l.random.attempts(want)
		random.XY = append(random.XY, [2]float64{l.share, attempts})
		ledger.XY = append(ledger.XY, [2]float64{l.share, one})
		table.Rows = append(table.Rows, []string{
			report.Number(l.share), report.Number(want), report.Number(attempts), fmt.Sprintf("%+.2f %%", 100*(attempts/want-1)),
			report.Number(l.random.reported), report.Number(one), fmt.Sprint(l.random.made), report.Number(1000 * l.random.p99.Seconds()),
		})
	}
	e.Tables = []report.Table{table}
	e.Charts = []report.Chart{attemptsChart(random, ledger)}
}

// attemptsChart returns a chart of the attempts over the share of codes in use, with the prediction.
func attemptsChart(random, ledger report.Series) report.Chart {
	law := report.Series{Name: "1/(1-f)", Predicted: true}
	for f := 0.0; f < 0.95; f += 0.01 {
		law.XY = append(law.XY, [2]float64{f, 1 / (1 - f)})
	}
	return report.Chart{
		Title: "Attempts per creation: they grow as 1/(1-f) for random codes, and are constant for the ledger",
		X:     report.Axis{Label: "share f of all codes in use"}, Y: report.Axis{Label: "attempts per creation", Log: true},
		Series: []report.Series{random, ledger, law},
	}
}
