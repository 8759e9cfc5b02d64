package schemes

import (
	"fmt"

	"keypool/loadtest/report"
)

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
			"follows two counters that take turns. The next milliseconds: the time of the latest Snowflake and on, each with all machines and sequences that were seen. "+
			"They know how the schemes work, and not a word of a secret.", seenCodes, manyGuesses, e.windows, maxLag),
		"Known URL: how many of 100 codes are the plain hash of their URL. Whoever has a URL, and no code, can then tell whether somebody made a link to it.",
		"While other users make links in between, the guesses that hit are theirs as well.",
	}
}

func (e *experiment) judgeCodes() {
	strange, astray, least, named := 0, []string(nil), float64(nextCodes), 0.0
	measured, counters, scattered := 0, 0, 0
	for _, s := range e.schemes {
		f := e.found[s.name].codes
		if f == nil {
			continue
		}
		measured++
		strange += f.strange
		if !f.ofClass(classOf(s.class)) {
			astray = append(astray, fmt.Sprintf("%s (%.0f %% ascending)", s.name, 100*f.ascending))
		}
		switch {
		case s.guessed && s.class == "counter":
			counters++
			least = min(least, f.guessed.few)
		case !s.guessed:
			scattered++
			named += f.guessed.many
		}
	}
	if measured > 0 {
		e.None(claimForm, int64(strange), "%d codes are others", strange)
		e.None(claimClass, int64(len(astray)), "%d schemes are not what they ought to be%s", len(astray), reasons(astray))
	}
	if counters > 0 {
		e.AtLeast(claimGuessed, enoughGuessed, least)
	}
	if scattered > 0 {
		e.Figures(claimScatter, 0, named)
		e.Judge(claimScatter, named == 0, "%.4g codes were named, of %d of each scheme", named, nextCodes)
	}
	e.leave(claimForm, claimClass, claimGuessed, claimScatter)
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
