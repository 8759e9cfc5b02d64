package schemes

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"keypool/loadtest"
	"keypool/loadtest/report"
	"keypool/loadtest/scenario"
)

// Shares of codes that are above the one before, from which on codes are in order, and up
// to which they are in none.
const (
	inOrder = 0.98
	noOrder = 0.60
)

// The claims of the part.
const (
	claimForm     = "codes as documented"
	claimClass    = "codes of their class"
	claimGuessed  = "counters are guessed"
	claimScatter  = "other codes are not guessed"
	enoughGuessed = 95 // of nextCodes
)

// codesFound is what the codes of a scheme told.
type codesFound struct {
	least, most int     // characters
	ascending   float64 // the share of codes that are above the one before
	strange     int     // codes with other digits, or another length, than those of the class
	guessed     guessed
	byURL       float64 // of 100 codes, how many whoever knows the URL can name
}

// codes lets each scheme make links one after the other on one connection, and looks at
// nothing but their codes. Nothing is timed, so they do it side by side.
func (e *experiment) codes(ctx context.Context) error {
	e.enterCodes()
	runs := e.everybody(ctx)
	e.enter("%d links of each scheme, one after the other", e.codeCount())
	traffics := make(map[string]*scenario.Traffic)
	for _, r := range runs {
		t, err := scenario.NewTraffic(r.server.Public, loadtest.NewRecorder())
		if err != nil {
			return err
		}
		defer t.Close()
		traffics[r.name] = t
	}
	runs = beside(ctx, e, runs, called, func(ctx context.Context, r *running) error { return oneByOne(ctx, traffics[r.name], e.codeCount()) })
	if ctx.Err() != nil {
		return nil
	}
	e.enter("guessing")
	runs = beside(ctx, e, runs, called, func(_ context.Context, r *running) error {
		e.found[r.name].codes = look(classOf(r.class), traffics[r.name].Entries())
		return nil
	})
	var all []*scenario.Traffic
	for _, r := range runs {
		all = append(all, traffics[r.name])
	}
	e.read(ctx, all)
	e.JudgeLinks(e.links)
	e.judgeCodes()
	e.drawCodes()
	return nil
}

// oneByOne makes n links, and fails with the first that is not made.
func oneByOne(ctx context.Context, t *scenario.Traffic, n int) error {
	for range n {
		if ctx.Err() != nil {
			return nil
		}
		outcome, err := t.One(ctx)
		if err != nil {
			return err
		}
		if outcome.State != loadtest.Acknowledged && ctx.Err() == nil {
			return fmt.Errorf("a link is not made: %s %s", outcome.State, outcome.Detail)
		}
	}
	return nil
}

// look is what codes tell that were made in this order.
func look(c class, entries []loadtest.Entry) *codesFound {
	f := &codesFound{least: len(entries[0].Code)}
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

// ofClass says whether the codes are such as the class has.
func (f *codesFound) ofClass(c class) bool {
	if c.ascending {
		return f.strange == 0 && f.ascending >= inOrder
	}
	return f.strange == 0 && f.ascending <= noOrder && f.ascending >= 1-noOrder
}

func (e *experiment) enterCodes() {
	e.Summary = fmt.Sprintf("Each scheme makes %d links, one right after the other on one connection. Then nothing but the codes is looked at: how "+
		"long they are, whether they ascend, and how many of the next %d are named by whoever has seen the last %d.", e.codeCount(), nextCodes, seenCodes)
	e.Claim(claimForm, "Every code has the length and the digits that its scheme is documented to have.", "codes")
	e.Claim(claimClass, fmt.Sprintf("Codes of counters and of times ascend (%.0f %% at the least), and no others do.", 100*inOrder), "schemes")
	e.Claim(claimGuessed, fmt.Sprintf("Whoever has seen %d codes of a counter, of tickets, or of a ledger in order names %d of the next %d at the least, with as many guesses.",
		seenCodes, enoughGuessed, nextCodes), "codes")
	e.Claim(claimScatter, "Of codes that are permuted, hashed or of chance nobody names any by what was seen.", "codes")
	e.ClaimLinks()
	e.Notes = []string{
		fmt.Sprintf("Guesses: three predictors are given %d codes in a row and name up to %d codes each, before any is tried; the one with the most hits counts, as a mean "+
			"over %d stretches of codes. The next numbers: the latest one plus 1, 2, ... Constant differences: on as the numbers grew most often over 1 to %d places, which "+
			"follows two counters that take turns. The next milliseconds: the time of the latest Snowflake plus 1, 2, ... ms, with the machine and the sequence that came most often. "+
			"They know how the schemes work, and not a word of a secret.", seenCodes, manyGuesses, e.windows, maxLag),
		"Known URL: how many of 100 codes are the plain hash of their URL. Whoever has a URL, and no code, can then tell whether somebody made a link to it.",
		"While other users make links in between, the guesses that hit are theirs as well.",
	}
}

func (e *experiment) judgeCodes() {
	strange, astray, least, named := 0, []string(nil), float64(nextCodes), 0.0
	counters := 0
	for _, s := range e.schemes {
		f := e.found[s.name].codes
		if f == nil {
			continue
		}
		strange += f.strange
		if !f.ofClass(classOf(s.class)) {
			astray = append(astray, fmt.Sprintf("%s (%.0f %% ascending)", s.name, 100*f.ascending))
		}
		switch {
		case s.guessed && s.class == "counter":
			counters++
			least = min(least, f.guessed.few)
		case !s.guessed:
			named += f.guessed.many
		}
	}
	e.None(claimForm, int64(strange), "%d codes are others", strange)
	e.None(claimClass, int64(len(astray)), "%d schemes are not what they ought to be%s", len(astray), reasons(astray))
	e.Figures(claimScatter, 0, named)
	e.Judge(claimScatter, named == 0, "%.4g codes were named, of %d of each scheme", named, nextCodes)
	if counters > 0 {
		e.AtLeast(claimGuessed, enoughGuessed, least)
	}
	e.leave(claimGuessed)
}

func (e *experiment) drawCodes() {
	t := report.Table{Title: "Codes", Columns: []string{
		"scheme", "characters", "codes there are", "ascending", fmt.Sprintf("of the next %d, named with %d guesses", nextCodes, fewGuesses),
		fmt.Sprintf("with %s", commas(manyGuesses)), "best by", "by chance", "known URL",
	}}
	few, many := row{name: fmt.Sprintf("with %d guesses", fewGuesses)}, row{name: fmt.Sprintf("with %s", commas(manyGuesses))}
	for _, s := range e.schemes {
		f := e.found[s.name].codes
		if f == nil {
			t.Rows = append(t.Rows, blank(s.name, len(t.Columns)))
			continue
		}
		by := f.guessed.by
		if by == "" {
			by = nobody
		}
		t.Rows = append(t.Rows, []string{
			s.name, f.length(), fmt.Sprintf("%s = %.3g", classOf(s.class).power, sizeOf(s.class)), percent(f.ascending), fmt.Sprintf("%.4g", f.guessed.few),
			fmt.Sprintf("%.4g", f.guessed.many), by, fmt.Sprintf("%.4g", f.guessed.chance), fmt.Sprintf("%.4g", f.byURL),
		})
		few.add(s.name, f.guessed.few)
		many.add(s.name, f.guessed.many)
	}
	e.Tables = []report.Table{t}
	e.Charts = []report.Chart{e.rows(fmt.Sprintf("From %d codes that were seen, so many of the next %d are named", seenCodes, nextCodes), "codes named", "", few, many)}
}

// length is how long the codes are.
func (f *codesFound) length() string {
	if f.least == f.most {
		return fmt.Sprint(f.most)
	}
	return fmt.Sprintf("%d to %d", f.least, f.most)
}
