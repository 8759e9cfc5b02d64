package space

import (
	"fmt"
	"math"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// Names of claims that controls refute.
const (
	reported = "reported attempts"
	evenDraw = "even draw"
)

// attemptsAt names the claim about a level.
func attemptsAt(share float64) string { return fmt.Sprintf("attempts at %g", share) }

func fallback() *experiment.Experiment {
	return experiment.Define(experiment.Definition[record]{
		Name: "space/fallback", Title: "Attempts of the fallback as the space fills",
		Summary: "The pool gives no key, so every code is drawn at random, and drawn again while another link has it. With a share f of all " +
			"codes in use that takes 1/(1-f) attempts on average: hardly more than one in a young space, 18 in a space that is 94.6 % full. " +
			"FALLBACK=ledger reserves numbers instead and always needs one attempt.",
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
	for _, share := range levels() {
		claims = append(claims, experiment.Claim[record]{
			Name: attemptsAt(share), Text: fmt.Sprintf("With %.4g %% of the codes in use a creation takes 1/(1-f) attempts.", 100*share),
			Unit: "attempts", Kind: report.Correctness, Judge: func(r *record) experiment.Verdict {
				for i := range r.levels {
					if m := &r.levels[i].random; r.levels[i].share == share {
						return experiment.Within(m.predicted(sizeOf(r.plan.length)), m.attempts(), r.plan.tolerance)
					}
				}
				return experiment.Verdict{}
			},
		})
	}
	on := func(name, text, unit string, judge func(*record) experiment.Verdict) {
		claims = append(claims, experiment.Claim[record]{Name: name, Text: text, Unit: unit, Kind: report.Correctness, Judge: func(r *record) experiment.Verdict {
			if len(r.levels) == 0 {
				return experiment.Verdict{}
			}
			return judge(r)
		}})
	}
	on("ledger attempts", "With FALLBACK=ledger a creation takes one attempt, however full the space is.", "attempts", (*record).judgeLedger)
	on(evenDraw, "The fallback draws every character equally often.", "chi-squared", (*record).judgeDraw)
	on(reported, "The server reports as many attempts as the database sees.", "attempts", (*record).judgeReported)
	claims = append(claims, measure.Served("No creation fails.", func(r *record) loadtest.Figures {
		if r.links == nil {
			return loadtest.Figures{}
		}
		return r.links.Figures
	}))
	return append(claims, measure.Links(func(r *record) *loadtest.Verdict { return r.links })...)
}

func (r *record) judgeLedger() experiment.Verdict {
	worst := 1.0
	for i := range r.levels {
		if attempts := r.levels[i].ledger.attempts(); math.Abs(attempts-1) > math.Abs(worst-1) {
			worst = attempts
		}
	}
	return experiment.Within(1, worst, 0)
}

// judgeReported judges by the level where the two counts differ most.
func (r *record) judgeReported() experiment.Verdict {
	worst := &measured{}
	for i := range r.levels {
		if m := &r.levels[i].random; m.off() >= worst.off() {
			worst = m
		}
	}
	return experiment.Within(worst.attempts(), worst.reported, 0.001)
}

// off is the difference between the count of the server and that of the store, as a share.
func (m *measured) off() float64 {
	if len(m.offered) == 0 {
		return 0
	}
	return math.Abs(m.reported/m.attempts() - 1)
}

func (r *record) judgeDraw() experiment.Verdict {
	var all draws
	for i := range r.levels {
		all.add(r.levels[i].random.offered)
	}
	chi2, freedom := all.unevenness()
	bound := unlikely(freedom)
	return experiment.AtMost(bound, chi2, "chi-squared is %.4g with %d degrees of freedom; a fair draw exceeds %.4g once in ten thousand times", chi2, freedom, bound)
}

// draws counts how often each character was drawn at each place of a code.
type draws [10][256]int

func (d *draws) add(codes []string) {
	for _, code := range codes {
		for place := range min(len(code), len(d)) {
			d[place][code[place]]++
		}
	}
}

// unevenness is Pearson's chi-squared against an even draw of every character at each place,
// and its degrees of freedom.
func (d *draws) unevenness() (chi2 float64, freedom int) {
	for i := range d {
		place, total := &d[i], 0
		for _, n := range place {
			total += n
		}
		if total == 0 {
			continue
		}
		want := float64(total) / float64(len(alphabet))
		for _, c := range []byte(alphabet) {
			chi2 += math.Pow(float64(place[c])-want, 2) / want
		}
		freedom += len(alphabet) - 1
	}
	return chi2, freedom
}

// unlikely is what chi-squared exceeds once in ten thousand times, by the approximation of
// Wilson and Hilferty (1931).
func unlikely(freedom int) float64 {
	const z = 3.719 // of the normal distribution
	n := 2 / (9 * float64(freedom))
	return float64(freedom) * math.Pow(1-n+z*math.Sqrt(n), 3)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func showFallback(r *record, e *report.Experiment) {
	e.Settings = map[string]string{
		"CODE_LENGTH": fmt.Sprint(r.plan.length), "KEY_SOURCE": "redis-pool; nothing listens at REDIS_URL", "KGS_PERMUTE": "false", "DATABASE_URL": "sqlite:...",
	}
	e.Notes = []string{
		"The database counts the attempts: a trigger keeps each code that a row is to be inserted with. For each new link another trigger " +
			"removes a link that only fills the space, so f stands still.",
		fmt.Sprintf("Each level has so many creations that chance alone misses the prediction by %.0f %% less than once in a thousand runs.", 100*r.plan.tolerance),
		fmt.Sprintf("The latencies are those of %d clients, each of which waits for an answer before its next creation.", width),
	}
	law, random := report.Series{Name: "1/(1-f)", Predicted: true}, report.Series{Name: "FALLBACK=random", Points: true}
	ledger, p99, p50 := report.Series{Name: "FALLBACK=ledger", Points: true}, report.Series{Name: "p99"}, report.Series{Name: "p50"}
	slow := report.Series{Name: "predicted: the attempts of one creation in a hundred, a commit each", Predicted: true}
	add := func(s *report.Series, x, y float64) { s.XY = append(s.XY, [2]float64{x, y}) }
	for share := 0.0; share < 0.95; share += 0.01 {
		add(&law, share, 1/(1-share))
	}
	table := report.Table{Title: "Attempts and latency by level", Columns: []string{
		"f", "1/(1-f)", "attempts", "difference", "reported by the server", "with FALLBACK=ledger", "creations", "p50 ms", "p99 ms",
	}}
	for i := range r.levels {
		l := &r.levels[i]
		m, want := &l.random, l.random.predicted(sizeOf(r.plan.length))
		add(&random, l.share, m.attempts())
		add(&ledger, l.share, l.ledger.attempts())
		add(&slow, want, attempts99(l.share)*milliseconds(m.commit))
		add(&p99, want, m.latency(0.99))
		add(&p50, want, m.latency(0.5))
		table.Rows = append(table.Rows, []string{
			report.Number(l.share), report.Number(want), report.Number(m.attempts()), fmt.Sprintf("%+.2f %%", 100*(m.attempts()/want-1)),
			report.Number(m.reported), report.Number(l.ledger.attempts()), fmt.Sprint(m.made),
			report.Number(m.latency(0.5)), report.Number(m.latency(0.99)),
		})
	}
	attempts := report.Axis{Label: "attempts per creation", Log: true}
	e.Charts = []report.Chart{
		{
			Title: "Attempts per creation grow as 1/(1-f); those of the ledger do not",
			X:     report.Axis{Label: "share f of all codes in use"}, Y: attempts, Series: []report.Series{law, random, ledger},
		},
		{
			Title: "Latency of a creation by its attempts", X: attempts,
			Y: report.Axis{Label: "latency of a creation", Unit: "ms", Log: true}, Series: []report.Series{slow, p99, p50},
		},
	}
	e.Tables = []report.Table{table}
}
