package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Line describes the experiment in one line for a terminal.
func (e *Experiment) Line(strict bool) string {
	return fmt.Sprintf("%-12s  %s: %s: %s (%s)", e.Verdict(strict), e.Name, e.Title, e.Sentence(), took(e.Seconds))
}

// WriteText writes the summary for a terminal: a line for each experiment, the findings with their
// reasons, and the verdict.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for i := range r.Experiments {
		b.WriteString(r.Experiments[i].Line(r.Strict) + "\n")
	}
	if all := r.Findings(); len(all) > 0 {
		b.WriteString("\nFindings, each with its reason:\n")
		for _, f := range all {
			fmt.Fprintf(&b, "%s %s\n    %s\n", f.Word, f, f.Why)
		}
	}
	_, err := fmt.Fprintf(w, "%s\n%s: %s\n", &b, r.Verdict(), r.Summary())
	return written("summary", err)
}

// String describes the finding without Word and Why.
func (f Finding) String() string {
	return strings.TrimSuffix(f.Experiment+", "+f.Name, ", ") + ": " + f.Text
}

// Summary describes the result of the run in a few sentences.
func (r *Report) Summary() string {
	s := r.Sentence() + "."
	if r.Interrupted {
		s += " The run was interrupted. The report contains what ran until then."
	}
	advisory := func(e Experiment) bool { return e.Verdict(true) == Fail && e.Verdict(false) != Fail }
	if !r.Strict && slices.ContainsFunc(r.Experiments, advisory) {
		s += " Without --strict, a speed claim that fails does not make the run fail."
	}
	return s + " It took " + took(r.Seconds) + "."
}

// HasCharts reports whether an experiment has a chart.
func (r *Report) HasCharts() bool {
	return slices.ContainsFunc(r.Experiments, func(e Experiment) bool { return len(e.Charts) > 0 })
}

// ControlTerm explains what a control is. It returns "" if the run has no control.
func (r *Report) ControlTerm() string {
	if !slices.ContainsFunc(r.Experiments, func(e Experiment) bool { return len(e.Controls) > 0 }) {
		return ""
	}
	return "A control repeats an experiment with a program that lacks a protection, or with other settings. A control is caught if all claims that it names fail. " +
		"\"Without NAME\" means that the program lacks the protection NAME, which is listed in loadtest/controls/table.go."
}

// Markdown writes the report as a section of a document. The section contains the command, the verdict, the
// commit, the machine and the results of the fault rows. For each experiment, it contains the claims, the tables, the
// findings that are not claims, and the notes.
func Markdown(w io.Writer, r *Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## Keypool load test, %s, `%s`\n\n", r.date(), r.Command)
	fmt.Fprintf(&b, "**%s**: %s Commit %s; %s.\n", r.Verdict(), r.Summary(), r.Commit, r.Machine)
	if term := r.ControlTerm(); term != "" {
		fmt.Fprintf(&b, "\n%s\n", term)
	}
	for _, t := range r.Rows() {
		b.WriteString("\n" + t.markdown())
	}
	for i := range r.Experiments {
		e := &r.Experiments[i]
		fmt.Fprintf(&b, "\n### %s\n\n%s\n", e.Title, e.Summary)
		for _, t := range append([]Table{e.claims()}, e.Tables...) {
			b.WriteString("\n" + t.markdown())
		}
		var items []string
		for _, f := range e.findings() {
			if f.Claim == nil {
				items = append(items, fmt.Sprintf("**%s** %s (%s)", f.Word, f, f.Why))
			}
		}
		if items = append(items, e.Notes...); len(items) > 0 {
			b.WriteString("\n- " + strings.Join(items, "\n- ") + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return written("report", err)
}

// claims returns the table of all claims of the experiment.
func (e *Experiment) claims() Table {
	t := Table{Columns: []string{"claim", "bound or prediction", "observed", "ratio", "outcome", "figures"}}
	for _, c := range e.Claims {
		t.Rows = append(t.Rows, []string{
			c.Text, quantity(c.Predicted, c.Unit), quantity(c.Observed, c.Unit), ratio(c.Observed, c.Predicted), c.Word(), c.Why,
		})
	}
	return t
}

// markdown returns the table in GitHub's Markdown.
func (t Table) markdown() string {
	var b strings.Builder
	if t.Title != "" {
		b.WriteString(t.Title + ":\n\n")
	}
	// The text of a cell must not contain a separator or markup.
	escape := strings.NewReplacer(`\`, `\\`, "|", `\|`, "\n", " ", "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`)
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + escape.Replace(c) + " ")
		}
		b.WriteString("|\n")
	}
	line(t.Columns)
	b.WriteString(strings.Repeat("|---", len(t.Columns)) + "|\n")
	for _, row := range t.Rows {
		line(row)
	}
	return b.String()
}

// numeric reports whether a column holds figures. The HTML report aligns such a column to the right.
func (t Table) numeric(column int) bool {
	some := false
	for _, row := range t.Rows {
		if column >= len(row) || row[column] == "" || row[column] == dash {
			continue
		}
		if !strings.ContainsAny(row[column][:1], "0123456789-+.") {
			return false
		}
		some = true
	}
	return some
}
