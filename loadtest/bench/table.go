package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"keypool/loadtest/report"
	"keypool/loadtest/rounds"
)

// columns are the heads of the table.
func columns() []string {
	return []string{"what", "measured", "beside", "judged (range)", "aim", "verdict"}
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
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	line := func(cells []string) {
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t")) // a Builder takes it all
	}
	line(columns())
	for i := range bars {
		line(bars[i].row())
	}
	_ = table.Flush() // likewise
	text.WriteByte('\n')
	for _, note := range notes(bars) {
		text.WriteString(report.Wrap("- "+note, 120, "  ") + "\n")
	}
	fmt.Fprintf(&text, "\n%s\n", Summary(bars))
	_, err := io.WriteString(w, text.String())
	return err
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
	var text strings.Builder
	fmt.Fprintf(&text, "## Every bar, %s, `%s`\n\n", h.Date, h.Command)
	text.WriteString(report.Wrap(fmt.Sprintf("%s; commit %s; %d rounds, all subjects of a row one after the other in each; medians, "+
		"with the least and the most of the rounds. A ratio is that of one round.", h.Machine, h.Commit, h.Rounds), 120, "") + "\n\n")
	line := func(cells []string) { fmt.Fprintf(&text, "| %s |\n", strings.Join(cells, " | ")) }
	line(columns())
	line(strings.Split(strings.Repeat("---,", len(columns())-1)+"---", ","))
	for i := range bars {
		cells := bars[i].row()
		for j := range cells {
			cells[j] = strings.ReplaceAll(cells[j], "|", `\|`)
		}
		line(cells)
	}
	text.WriteByte('\n')
	for _, note := range notes(bars) {
		text.WriteString(report.Wrap("- "+note, 120, "  ") + "\n")
	}
	fmt.Fprintf(&text, "\n%s.\n", Summary(bars))
	_, err := io.WriteString(w, text.String())
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
