package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteText writes the comparison for a terminal: first what differs between the runs,
// then a line for each claim. A line that begins with ! has another verdict.
func (c *Comparison) WriteText(w io.Writer) error {
	var b strings.Builder
	row := func(cells []string) {
		for i, c := range cells {
			cells[i] = strings.Join(strings.Fields(c), " ") // a tab or a new line would end it
		}
		b.WriteString(strings.Join(cells, "\t") + "\n")
	}
	if len(c.Differ) > 0 {
		row([]string{"DIFFERENT", "A", "B"})
		for _, d := range c.Differ {
			row(d.cells())
		}
		b.WriteString("\n") // a line without a cell ends the columns of a table
	}
	row(append([]string{""}, columns()...))
	for _, claim := range c.Claims {
		row(append([]string{sign(claim)}, claim.cells()...))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, err := io.WriteString(t, b.String())
	if err = cmp.Or(err, t.Flush()); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

// WriteMarkdown writes the same as two tables of GitHub's Markdown.
func (c *Comparison) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	row := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	head := func(names []string) {
		row(names)
		b.WriteString(strings.Repeat("|---", len(names)) + "|\n")
	}
	if len(c.Differ) > 0 {
		head([]string{"different", "A", "B"})
		for _, d := range c.Differ {
			row(escaped(d.cells()))
		}
		b.WriteString("\n")
	}
	head(append([]string{""}, columns()...))
	for _, claim := range c.Claims {
		row(append([]string{sign(claim)}, escaped(claim.cells())...))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

func sign(c Compared) string {
	if c.Changed() {
		return "!"
	}
	return ""
}

func columns() []string {
	return []string{"claim", "A", "B", "predicted", "observed A", "observed B", "B / A"}
}

func (d Difference) cells() []string {
	return []string{d.What, cmp.Or(d.A, nothing), cmp.Or(d.B, nothing)}
}

func (c Compared) cells() []string {
	a, b := cmp.Or(c.A, &Claim{}), cmp.Or(c.B, &Claim{})
	predicted := quantity(a.Predicted, a.Unit)
	if other := quantity(b.Predicted, b.Unit); c.A == nil {
		predicted = other
	} else if c.B != nil && other != predicted {
		predicted += " / " + other
	}
	return []string{
		c.Scenario + " " + c.Name, cmp.Or(string(a.Verdict), nothing), cmp.Or(string(b.Verdict), nothing), predicted,
		quantity(a.Observed, a.Unit), quantity(b.Observed, b.Unit), ratio(b.Observed, a.Observed),
	}
}

// escaped keeps what is in a cell from ending it, or from being taken for markup.
func escaped(cells []string) []string {
	r := strings.NewReplacer(`\`, `\\`, "|", `\|`, "\n", " ", "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`)
	all := make([]string, len(cells))
	for i, c := range cells {
		all[i] = r.Replace(c)
	}
	return all
}
