package bench

import (
	"fmt"
	"io"

	"keypool/loadtest/report"
	"keypool/loadtest/rounds"
)

// table is a row for each bar.
func table(bars []Bar) report.Table {
	t := report.Table{Columns: []string{"what", "measured", "beside", "judged (range)", "aim", "verdict"}}
	for i := range bars {
		t.Rows = append(t.Rows, bars[i].row())
	}
	return t
}

// row is the cells of a bar.
func (b *Bar) row() []string {
	measured := rounds.Quantity(b.Measured.Median(), b.Unit)
	beside, ratio := "", b.Measured.Spread(b.Unit)
	if b.Versus != "" {
		beside = rounds.Quantity(b.Baseline.Median(), b.Unit) + " " + b.Versus
		ratio = b.judged().Spread(rounds.Times)
	}
	return []string{b.What, measured, beside, ratio, b.aim(), string(b.Verdict())}
}

// Summary says how many of the bars hold; yardsticks are none.
func Summary(bars []Bar) string {
	var hold, miss int
	for i := range bars {
		switch bars[i].Verdict() {
		case Holds:
			hold++
		case Misses:
			miss++
		case Yardstick:
		}
	}
	return fmt.Sprintf("%d of %d bars hold", hold, hold+miss)
}

// WriteText writes the bars as a table for a terminal, with their notes below.
func WriteText(w io.Writer, bars []Bar) error {
	if err := table(bars).WriteText(w); err != nil {
		return err
	}
	return writeNotes(w, bars, Summary(bars))
}

// Heading is what stands over the table: when, where and what was measured.
type Heading struct {
	Date    string
	Machine string
	Commit  string
	Command string
	Rounds  int
}

// WriteMarkdown writes the bars as a table for docs/benchmarks.md.
func WriteMarkdown(w io.Writer, h Heading, bars []Bar) error {
	about := fmt.Sprintf("%s; commit %s; %d rounds, all subjects of a row one after the other in each; medians, "+
		"with the least and the most of the rounds. A ratio is that of one round.", h.Machine, h.Commit, h.Rounds)
	if _, err := fmt.Fprintf(w, "## Every bar, %s, `%s`\n\n%s\n\n", h.Date, h.Command, report.Wrap(about, width, "")); err != nil {
		return err
	}
	if err := table(bars).WriteMarkdown(w); err != nil {
		return err
	}
	return writeNotes(w, bars, Summary(bars)+".")
}

// width is that of the text below a table, in characters.
const width = 120

// writeNotes writes what stands below the table: the notes, and the summary.
func writeNotes(w io.Writer, bars []Bar, summary string) error {
	text := "\n"
	for _, note := range notes(bars) {
		text += report.Wrap("- "+note, width, "  ") + "\n"
	}
	_, err := fmt.Fprintf(w, "%s\n%s\n", text, summary)
	return err
}

// notes are those of all bars, each once, with the name of the first bar that has it.
func notes(bars []Bar) []string {
	var all []string
	told := make(map[string]bool)
	for i := range bars {
		if b := &bars[i]; b.Note != "" && !told[b.Note] {
			told[b.Note] = true
			all = append(all, b.What+": "+b.Note)
		}
	}
	return all
}
