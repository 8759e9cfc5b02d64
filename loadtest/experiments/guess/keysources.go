package guess

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"

	"github.com/dustin/go-humanize"
)

const (
	windows   = 5 // stretches of codes in which is guessed
	codeCount = windows * (seenCodes + nextCodes)
	poolKeys  = 20_000 // more than are taken

	// Codes are in order when this share of them is above the one before, and in no order up to noOrder.
	inOrder = 0.98
	noOrder = 0.60

	enoughGuessed = 95 // of nextCodes
)

// Names of claims that a control refutes.
const (
	order       = "order"
	unpredicted = "other codes are not guessed"
)

// form is the length and the digits of the codes of a class.
type form struct {
	digits    numerals
	length    int
	power     string   // the size as reports write it
	size      *big.Int // how many codes there are
	ascending bool     // each code is above the one before
	guessable bool     // codes follow from those before them
}

func formOf(c sources.Class) *form {
	switch c {
	case sources.Counter:
		return &form{digits: base62, length: 6, power: "62^6", size: base62.size(6), ascending: true, guessable: true}
	case sources.Time:
		return &form{digits: base62, length: 11, power: "2^63", size: new(big.Int).Lsh(big.NewInt(1), 63), ascending: true, guessable: true}
	case sources.Hash:
		return &form{digits: base64url, length: 6, power: "64^6", size: base64url.size(6)}
	case sources.UUID:
		return &form{digits: base62, length: 22, power: "2^128", size: new(big.Int).Lsh(big.NewInt(1), 128)}
	case sources.Random, sources.Other:
	}
	return &form{digits: base62, length: 6, power: "62^6", size: base62.size(6)}
}

// code writes a number as a code of the form; ok is false when it is none.
func (c *form) code(n *big.Int) (code string, ok bool) {
	if n.Cmp(c.size) >= 0 {
		return "", false
	}
	return c.digits.code(n, c.length)
}

// holds reports whether a code has the length and the digits of the form.
func (c *form) holds(code string) bool {
	n, ok := c.digits.number(code)
	return ok && len(code) == c.length && n.Cmp(c.size) < 0
}

// found is what the codes of a source show.
type found struct {
	least, most int     // characters
	ascending   float64 // the share of codes that are above the one before
	strange     int     // codes of another form than the class has
	guessed     guessed
	byURL       float64 // of 100 codes, how many follow from the URL alone
}

// look inspects codes that were made in this order.
func look(c *form, entries []loadtest.Entry) *found {
	f := &found{least: len(entries[0].Code)}
	var codes []string
	above, known := 0, 0
	for i, entry := range entries {
		codes = append(codes, entry.Code)
		f.least, f.most = min(f.least, len(entry.Code)), max(f.most, len(entry.Code))
		if !c.holds(entry.Code) {
			f.strange++
		}
		if i > 0 && entry.Code > entries[i-1].Code {
			above++
		}
		if entry.Code == hashed(entry.URL) {
			known++
		}
	}
	f.ascending = float64(above) / float64(max(1, len(codes)-1))
	f.byURL = 100 * float64(known) / float64(len(codes))
	f.guessed = c.guessAll(codes)
	return f
}

// hashed is the code that a hash of the URL alone gives.
func hashed(url string) string {
	digest := sha256.Sum256([]byte(url))
	return base64.RawURLEncoding.EncodeToString(digest[:])[:6]
}

// ofForm reports whether the codes are as the form has them.
func (f *found) ofForm(c *form) bool {
	if c.ascending {
		return f.strange == 0 && f.ascending >= inOrder
	}
	return f.strange == 0 && f.ascending <= noOrder && f.ascending >= 1-noOrder
}

// record is what the experiment observes of all sources.
type record struct {
	sources.Observed
	found map[string]*found // by source
}

func sourceClaims() []experiment.Claim[record] {
	on := func(name, text, unit string, judge func(*record) experiment.Verdict) experiment.Claim[record] {
		return experiment.Claim[record]{Name: name, Text: text, Unit: unit, Kind: report.Correctness, Judge: judge}
	}
	return append([]experiment.Claim[record]{
		on("documented form", "Every code has the length and the digits that are documented for its key source.", "codes", judgeForm),
		on(order, fmt.Sprintf("Codes of counters and of times ascend (at least %.0f %%), and no others do.", 100*inOrder), "key sources", judgeOrder),
		on("counters are guessed", fmt.Sprintf("After %d codes of a counter, of tickets, or of a ledger in order, as many guesses hit at least %d of the next %d codes.",
			seenCodes, enoughGuessed, nextCodes), "codes", judgeGuessed),
		on(unpredicted, "No guess from earlier codes hits a permuted, hashed or random code.", "codes", judgeUnpredicted),
		sources.EachMeasured(func(r *record) *sources.Observed { return &r.Observed }),
	}, measure.Links(func(r *record) *loadtest.Verdict { return r.Links })...)
}

func keySources() *experiment.Experiment {
	return experiment.Define(experiment.Definition[record]{
		Name: "compare/guess", Title: "Codes of every key source, and guesses of the next ones",
		Summary: fmt.Sprintf("Each key source makes %d links, one directly after the other on one connection. Then only the codes are inspected: their length, "+
			"their order, and how many of the next %d codes are guessed after the last %d.", codeCount, nextCodes, seenCodes),
		Suites: []experiment.Suite{experiment.Nightly}, Run: runKeySources, Show: showKeySources,
		Claims: sourceClaims(),
		Controls: []experiment.Control{
			{Without: []string{"store"}, Refutes: measure.NoLostLink},
			{Settings: []string{"KGS_PERMUTE=false"}, Refutes: order, AlsoRefutes: []string{unpredicted}},
		},
	})
}

func runKeySources(t *experiment.T, rec *record) {
	stage := sources.NewStage(t)
	t.Phase(0, "starting every key source")
	var all []*sources.Running
	for _, s := range sources.Compared() {
		all = append(all, stage.Launch(&s, stage.Supply(&s, ""), fmt.Sprintf("KGS_POOL_CAPACITY=%d", poolKeys)))
	}
	stage.AwaitFull(all)
	t.Phase(0.3, "%d links of each key source, one after the other", codeCount)
	all = rec.Each(all, func(r *sources.Running) error {
		for range codeCount {
			if err := r.One(t.Context()); err != nil {
				return err
			}
		}
		return nil
	})
	t.Phase(0.6, "guessing")
	rec.found = make(map[string]*found)
	for _, r := range all {
		rec.found[r.Name] = look(formOf(r.Class), slices.DeleteFunc(r.Load.Entries(), func(e loadtest.Entry) bool { return e.State != loadtest.Acknowledged }))
	}
	t.Phase(0.8, "reading the links back")
	rec.ReadBack(t, all)
	rec.Complete = true
}

// each calls do for every source that was measured.
func (r *record) each(do func(sources.Source, *form, *found)) {
	for _, s := range sources.Compared() {
		if f := r.found[s.Name]; f != nil {
			do(s, formOf(s.Class), f)
		}
	}
}

func judgeForm(r *record) experiment.Verdict {
	strange := 0
	r.each(func(_ sources.Source, _ *form, f *found) { strange += f.strange })
	if len(r.found) == 0 {
		return experiment.Verdict{}
	}
	return experiment.None(int64(strange), "%d codes have another form", strange)
}

func judgeOrder(r *record) experiment.Verdict {
	var wrong []string
	r.each(func(s sources.Source, c *form, f *found) {
		if !f.ofForm(c) {
			wrong = append(wrong, fmt.Sprintf("%s (%s ascending, %d codes of another form)", s.Name, percent(f.ascending), f.strange))
		}
	})
	if len(r.found) == 0 {
		return experiment.Verdict{}
	}
	return experiment.None(int64(len(wrong)), "%d of %d key sources have another order or form; %s", len(wrong), len(r.found), strings.Join(wrong, ", "))
}

// judgeGuessed judges by the counter of which the fewest codes were guessed.
func judgeGuessed(r *record) experiment.Verdict {
	least, name := 0.0, ""
	r.each(func(s sources.Source, _ *form, f *found) {
		if s.Class == sources.Counter && (name == "" || f.guessed.few < least) {
			least, name = f.guessed.few, s.Name
		}
	})
	if name == "" {
		return experiment.NotJudged("no counter was measured")
	}
	return experiment.AtLeast(enoughGuessed, least, "the fewest are guessed of %s: %.4g of %d", name, least, nextCodes)
}

func judgeUnpredicted(r *record) experiment.Verdict {
	hit, measured := 0.0, 0
	r.each(func(_ sources.Source, c *form, f *found) {
		if !c.guessable {
			measured, hit = measured+1, hit+f.guessed.many
		}
	})
	if measured == 0 {
		return experiment.NotJudged("no key source without order was measured")
	}
	return experiment.AtMost(0, hit, "%.4g codes were guessed, of %d of each of %d key sources", hit, nextCodes, measured)
}

func percent(share float64) string { return humanize.FtoaWithDigits(100*share, 1) + " %" }

func showKeySources(r *record, e *report.Experiment) {
	e.Settings = map[string]string{"FALLBACK": "none", "KGS_POOL_CAPACITY": fmt.Sprint(poolKeys)}
	e.Notes = []string{
		fmt.Sprintf("Three predictors see %d codes in a row and make up to %s guesses each before any is tried; the one with the most hits counts, as a mean "+
			"over %d stretches of codes. The next numbers: the latest plus 1, 2, ... Constant differences: the most frequent difference over 1 to %d places, which "+
			"follows two counters that take turns. The next milliseconds: the time of the latest Snowflake and the following ones, with all machines and sequences seen. "+
			"They know how the key sources work, and no secret.", seenCodes, report.Number(manyGuesses), windows, maxLag),
		"Known URL: how many of 100 codes are the plain hash of their URL. Somebody who has a URL and no code can then find out whether a link to it exists.",
		"When other users make links in between, the guesses that hit are theirs too.",
	}
	few, many := fmt.Sprintf("with %d guesses", fewGuesses), "with "+report.Number(manyGuesses)
	t := report.Table{Title: "Codes", Columns: []string{
		"key source", "characters", "codes in the space", "ascending", fmt.Sprintf("of the next %d, guessed %s", nextCodes, few), many, "best predictor", "by chance", "known URL",
	}}
	chart := report.Chart{
		Title: fmt.Sprintf("How many of the next %d codes are guessed after %d", nextCodes, seenCodes), X: report.Axis{Label: "codes guessed"},
		Series: []report.Series{{Name: few, Points: true}, {Name: many, Points: true}},
	}
	compared := sources.Compared()
	for i, s := range compared {
		f, c := r.found[s.Name], formOf(s.Class)
		if f == nil {
			t.Rows = append(t.Rows, append([]string{s.Name}, slices.Repeat([]string{"–"}, len(t.Columns)-1)...))
			continue
		}
		length := fmt.Sprint(f.most)
		if f.least < f.most {
			length = fmt.Sprintf("%d to %d", f.least, f.most)
		}
		size, _ := new(big.Float).SetInt(c.size).Float64()
		t.Rows = append(t.Rows, []string{
			s.Name, length, fmt.Sprintf("%s = %.3g", c.power, size), percent(f.ascending), fmt.Sprintf("%.4g", f.guessed.few),
			fmt.Sprintf("%.4g", f.guessed.many), cmp.Or(f.guessed.by, "none"), fmt.Sprintf("%.4g", f.guessed.chance), fmt.Sprintf("%.4g", f.byURL),
		})
		y := float64(len(compared) - 1 - i) // the first source on top
		chart.Y.Names = append(chart.Y.Names, report.Mark{At: y, Name: s.Name})
		chart.Series[0].XY = append(chart.Series[0].XY, [2]float64{f.guessed.few, y})
		chart.Series[1].XY = append(chart.Series[1].XY, [2]float64{f.guessed.many, y})
	}
	e.Tables, e.Charts = []report.Table{t}, []report.Chart{chart}
}
