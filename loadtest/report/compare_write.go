package report

import (
	"cmp"
	"io"
)

// WriteText writes the comparison for a terminal: first what differs between the runs,
// then a line for each claim. A line that begins with ! has another verdict.
func (c *Comparison) WriteText(w io.Writer) error {
	return c.write(w, "DIFFERENT", Table.WriteText)
}

// WriteMarkdown writes the same as two tables of GitHub's Markdown.
func (c *Comparison) WriteMarkdown(w io.Writer) error {
	return c.write(w, "different", Table.WriteMarkdown)
}

func (c *Comparison) write(w io.Writer, different string, write func(Table, io.Writer) error) error {
	claims := Table{Columns: append([]string{""}, columns()...)}
	for _, claim := range c.Claims {
		claims.Rows = append(claims.Rows, append([]string{sign(claim)}, claim.cells()...))
	}
	if len(c.Differ) == 0 {
		return write(claims, w)
	}
	differ := Table{Columns: []string{different, "A", "B"}}
	for _, d := range c.Differ {
		differ.Rows = append(differ.Rows, d.cells())
	}
	if err := write(differ, w); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return write(claims, w)
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
