package guess

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

const (
	windows   = 5 // number of windows; a window consists of known codes and the codes after them
	codeCount = windows * (seenCodes + nextCodes)
	poolKeys  = 20_000 // keys in a full pool, more than the run takes

	// A code ascends if it is greater than the code that was made before it. Codes are in order if
	// the share of ascending codes is at least inOrder. Codes have no order if this share is from
	// 1-noOrder to noOrder.
	inOrder = 0.98
	noOrder = 0.60

	enoughGuessed = 95 // how many of the next nextCodes codes must be guessed, at least
)

// Names of claims that must fail in a control.
const (
	order       = "codes have the expected order"
	unpredicted = "codes without order are not guessed"
)

// record holds what the experiment observes of all key sources.
type record struct {
	sources.Observed
	found []found // one for each key source that was measured
}

// found holds what the codes of a key source show.
type found struct {
	name      string
	class     sources.Class
	longest   int     // characters of the longest code
	ascending float64 // share of codes that are greater than the code before them
	strange   int     // number of codes that do not have the form of the class
	guessed   guessed
	byURL     float64 // % of codes that follow from the URL alone
}

// look inspects codes in the order in which they were made.
func look(s *sources.Source, entries []loadtest.Entry) found {
	f, form, last := found{name: s.Name, class: s.Class}, sources.FormOf(s.Class), ""
	var codes []string
	for _, e := range entries {
		if e.State != loadtest.Acknowledged {
			continue
		}
		codes = append(codes, e.Code)
		f.longest = max(f.longest, len(e.Code))
		if _, ok := form.Number(e.Code); !ok {
			f.strange++
		}
		if last != "" && e.Code > last {
			f.ascending += 1.0 / (codeCount - 1)
		}
		if e.Code == hashed(e.URL) {
			f.byURL += 100.0 / codeCount
		}
		last = e.Code
	}
	f.guessed = guessAll(form, codes)
	return f
}

// hashed returns the code that follows from the URL alone: a truncated SHA-256.
func hashed(url string) string {
	digest := sha256.Sum256([]byte(url))
	return base64.RawURLEncoding.EncodeToString(digest[:])[:6]
}

// ordered reports whether the codes of the class ascend, so that they can be guessed.
func ordered(c sources.Class) bool { return c == sources.Counter || c == sources.Time }

// fitsClass reports whether the codes have the form and the order of their class.
func (f *found) fitsClass() bool {
	if ordered(f.class) {
		return f.strange == 0 && f.ascending >= inOrder
	}
	return f.strange == 0 && f.ascending <= noOrder && f.ascending >= 1-noOrder
}

func sourceClaims() []experiment.Claim[record] {
	on := func(name, text, unit string, judge func([]found) experiment.Verdict) experiment.Claim[record] {
		c := experiment.Claim[record]{Name: name, Text: text, Unit: unit, Kind: report.Correctness}
		c.Judge = func(r *record) experiment.Verdict { return judge(r.found) }
		return c.When(func(r *record) bool { return len(r.found) > 0 })
	}
	return append([]experiment.Claim[record]{
		on("codes have the documented form", "Every code has the length and the digits that are documented for its key source.", "codes with another form", func(all []found) experiment.Verdict {
			strange := 0
			for _, f := range all {
				strange += f.strange
			}
			return experiment.None(int64(strange), "%d codes have a form that is not documented", strange)
		}),
		on(order, fmt.Sprintf("At least %.0f %% of the codes of counters and of snowflake are greater than the preceding code. For the other key sources, this share is from %.0f to %.0f %%.",
			100*inOrder, 100*(1-noOrder), 100*noOrder), "key sources", judgeOrder),
		on("codes of counters can be guessed", fmt.Sprintf("After %d codes of redis-incr, ticket or ledger-in-order, %d guesses hit at least %d of the next %d codes.",
			seenCodes, fewGuesses, enoughGuessed, nextCodes), "codes", judgeGuessed),
		on(unpredicted, "No guess from earlier codes hits a permuted, hashed or random code.", "guesses that hit", judgeUnpredicted),
		sources.EachMeasured(func(r *record) *sources.Observed { return &r.Observed }),
	}, measure.Links(func(r *record) *loadtest.Verdict { return r.Links })...)
}

func keySources() *experiment.Experiment {
	return experiment.Define(experiment.Definition[record]{
		Name: "compare/guess", Title: "Guesses at the next codes of every key source",
		Summary: fmt.Sprintf("Each key source makes %d links, one after the other on one connection. Then the experiment inspects the length and the order "+
			"of the codes. It counts how many of %d codes can be guessed from the %d codes before them.", codeCount, nextCodes, seenCodes),
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
	for _, r := range all {
		rec.found = append(rec.found, look(&r.Source, r.Load.Entries()))
	}
	t.Phase(0.8, "reading the links back")
	rec.ReadBack(t, all)
	rec.Complete = true
}

func judgeOrder(all []found) experiment.Verdict {
	var wrong []string
	for _, f := range all {
		if !f.fitsClass() {
			wrong = append(wrong, fmt.Sprintf("%s (%s of the codes ascend, and %d codes have another form)", f.name, percent(f.ascending), f.strange))
		}
	}
	which := ""
	if len(wrong) > 0 {
		which = ": " + strings.Join(wrong, ", ")
	}
	return experiment.None(int64(len(wrong)), "the codes of %d of %d key sources have a wrong order or form%s", len(wrong), len(all), which)
}

// judgeGuessed judges the counter with the fewest guessed codes.
func judgeGuessed(all []found) experiment.Verdict {
	counters := slices.DeleteFunc(slices.Clone(all), func(f found) bool { return f.class != sources.Counter })
	if len(counters) == 0 {
		return experiment.Verdict{}
	}
	least := slices.MinFunc(counters, func(a, b found) int { return cmp.Compare(a.guessed.few, b.guessed.few) })
	return experiment.AtLeast(enoughGuessed, least.guessed.few, "in the worst case (%s), %.4g of %d codes were guessed", least.name, least.guessed.few, nextCodes)
}

func judgeUnpredicted(all []found) experiment.Verdict {
	others, hit := slices.DeleteFunc(slices.Clone(all), func(f found) bool { return ordered(f.class) }), 0.0
	if len(others) == 0 {
		return experiment.Verdict{}
	}
	for _, f := range others {
		hit += f.guessed.many
	}
	return experiment.AtMost(0, hit, "%.4g codes were guessed in total, with %d codes to guess for each of %d key sources", hit, nextCodes, len(others))
}

func percent(share float64) string { return humanize.FtoaWithDigits(100*share, 1) + " %" }

func showKeySources(r *record, e *report.Experiment) {
	e.Settings = map[string]string{"FALLBACK": "none", "KGS_POOL_CAPACITY": fmt.Sprint(poolKeys)}
	e.Notes = []string{
		fmt.Sprintf("Each of three predictors gets %d consecutive codes and lists up to %s guesses. When its list is complete, the guesses are tried. The table shows the hits of the best predictor, as a "+
			"mean over %d groups of codes. \"The next numbers\" guesses the latest number plus 1, 2, ... \"Constant differences\" finds the most frequent difference between two numbers that are 1 to %d positions apart, and continues with this difference, "+
			"so it can follow two alternating counters. \"The next milliseconds\" guesses Snowflakes of the latest millisecond and of the following milliseconds, with every pair of machine and sequence that occurs in the known codes. "+
			"The predictors use knowledge of how the key sources work, but no secret.", seenCodes, report.Number(manyGuesses), windows, maxLag),
		"The last column shows how many of 100 codes are the plain hash of their URL. With such codes, a person who has only the URL can find out whether a link to it exists.",
		"If other users make links at the same time, some of the guesses hit the links of these users.",
	}
	few, many := fmt.Sprintf("with %d guesses", fewGuesses), fmt.Sprintf("with %s guesses", report.Number(manyGuesses))
	table := report.Table{Title: "Codes", Columns: []string{
		"key source", "characters of the longest code", "codes in the space", "codes greater than the code before", fmt.Sprintf("of the next %d codes, guessed %s", nextCodes, few),
		"guessed " + many, "best predictor", "codes that follow from the URL, of 100",
	}}
	for _, f := range r.found {
		form := sources.FormOf(f.class)
		table.Rows = append(table.Rows, []string{
			f.name, fmt.Sprint(f.longest), fmt.Sprintf("%s = %.3g", form.Power, new(big.Float).SetInt(form.Size)), percent(f.ascending),
			fmt.Sprintf("%.4g", f.guessed.few), fmt.Sprintf("%.4g", f.guessed.many), cmp.Or(f.guessed.by, "none"), fmt.Sprintf("%.4g", f.byURL),
		})
	}
	e.Tables = []report.Table{table}
}
