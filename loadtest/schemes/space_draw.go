package schemes

import (
	"fmt"
	"math"

	"keypool/loadtest/report"
)

func (e *experiment) enterSpace() {
	e.Summary = fmt.Sprintf("With codes of %d digits there are %s of them. They are given out, and in use, up to a share f, and each scheme then makes %d more links. "+
		"How many keys does a creation take until one is free?", spaceLength, commas(spaceSize), e.spaceLinks)
	e.Claim(claimOneAttempt, "Whoever remembers what was given out takes one attempt, however full the space is.", "attempts")
	e.Claim(claimChance, "Chance takes 1/(1-f) attempts.", "attempts")
	e.Claim(claimSameURL, fmt.Sprintf("Each further link to the same URL takes a hash an attempt more: for %d of them %.1f each on average.", sameURL, float64(sameURL+1)/2), "attempts")
	e.ClaimLinks()
	e.Settings = map[string]string{
		"CODE_LENGTH": fmt.Sprint(spaceLength), "FALLBACK": "none", "KGS_PERMUTE": "false", "KGS_POOL_CAPACITY": fmt.Sprint(spacePool),
	}
	e.Notes = []string{
		"The share in use is links that are in the database, and the scheme is set to where it has given out just these: its ledger, counter, sequences, or list of used keys. " +
			"The pools and the ledger do so without their permutation, which leaves attempts as they are.",
		"Attempts are kgs_keys_taken_total over shortener_links_created_total, as the server tells them.",
		"Spaces of Snowflake, hash and UUID have one size, and none of them can be filled here: at f = 0 they are measured, and beyond it nothing is said.",
		"A pool in PostgreSQL draws by chance too, but ahead of time: what conflicts with used keys never reaches it.",
	}
}

func (e *experiment) judgeSpace() {
	worst, found := 0.0, false
	for _, s := range e.schemes {
		f := e.found[s.name].space
		if f == nil {
			continue
		}
		last := f.attempts[len(f.attempts)-1]
		switch {
		case s.name == "random" && last > 0:
			e.Within(claimChance, e.expected(fullest()), last, e.spaceExact)
		case s.class == "hash" && f.repeated != nil:
			e.Within(claimSameURL, float64(sameURL+1)/2, *f.repeated, 0)
		case s.used != nil && last > 0:
			worst, found = max(worst, last), true
		}
	}
	if found {
		e.AtMost(claimOneAttempt, 1, worst)
	}
	e.leave(claimOneAttempt, claimChance, claimSameURL)
}

func (e *experiment) drawSpace() {
	t := report.Table{Title: "Attempts a creation", Columns: []string{"scheme"}}
	for _, share := range spaceShares() {
		t.Columns = append(t.Columns, fmt.Sprintf("f = %g", share))
	}
	t.Columns = append(t.Columns, "conflicts at the last", "the same URL, a link")
	for _, s := range e.schemes {
		if f := e.found[s.name].space; f != nil {
			t.Rows = append(t.Rows, f.cells(s.name))
			continue
		}
		t.Rows = append(t.Rows, blank(s.name, len(t.Columns)))
	}
	e.Tables = []report.Table{t}
	e.Charts = []report.Chart{e.attemptsChart()}
}

func (f *spaceFound) cells(name string) []string {
	cells := []string{name}
	for _, v := range f.attempts {
		cells = append(cells, attemptsText(v))
	}
	last, repeated := len(f.attempts)-1, unknown
	conflicts := unknown
	if f.attempts[last] > 0 {
		conflicts = fmt.Sprintf("%.2f", f.conflicts[last])
	}
	if f.repeated != nil {
		repeated = fmt.Sprintf("%.4g", *f.repeated)
	}
	return append(cells, conflicts, repeated)
}

// attemptsText shows attempts a creation, of which there is one at the least.
func attemptsText(v float64) string {
	if v == 0 {
		return unknown
	}
	return fmt.Sprintf("%.2f", v)
}

func (e *experiment) attemptsChart() report.Chart {
	chart := report.Chart{
		Title: "Attempts as the space fills", X: report.Axis{Label: "share of the codes in use", Unit: "f"}, Y: report.Axis{Label: "attempts a creation", Log: true},
	}
	for _, name := range []string{"random", "redis-pool", "redis-incr"} {
		f := e.found[name]
		if f == nil || f.space == nil {
			continue
		}
		s := report.Series{Name: name}
		for i, v := range f.space.attempts {
			s.XY = append(s.XY, [2]float64{spaceShares()[i], v})
		}
		chart.Series = append(chart.Series, s)
	}
	formula := report.Series{Name: "1/(1-f)", Predicted: true}
	for f := 0.0; f < 0.905; f += 0.02 {
		formula.XY = append(formula.XY, [2]float64{math.Round(f*100) / 100, 1 / (1 - f)})
	}
	chart.Series = append(chart.Series, formula)
	return chart
}
