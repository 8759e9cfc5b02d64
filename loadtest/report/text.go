package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// textWidth is the width of running text, in characters. Tables are as wide as they need.
const textWidth = 120

// Line is the experiment in one line for a terminal.
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
		b.WriteString("\nWhat does not hold, with the reason:\n")
		for _, f := range all {
			b.WriteString(wrap(f.Word+" "+f.String(), textWidth, "    ") + "\n    " + wrap(f.Why, textWidth, "    ") + "\n")
		}
	}
	fmt.Fprintf(&b, "\n%s: %s\n", r.Verdict(), r.Summary())
	_, err := io.WriteString(w, b.String())
	return written("summary", err)
}

// String is the finding without its word and its reason.
func (f Finding) String() string {
	return strings.TrimSuffix(f.Experiment+", "+f.Name, ", ") + ": " + f.Text
}

// Summary is the result of the run in a few sentences.
func (r *Report) Summary() string {
	s := capital(r.Sentence()) + "."
	if r.Interrupted {
		s += " The run was interrupted; the report holds what ran until then."
	}
	advisory := func(e Experiment) bool { return e.Verdict(true) == Fail && e.Verdict(false) != Fail }
	if !r.Strict && slices.ContainsFunc(r.Experiments, advisory) {
		s += " This run reports speed claims that fail and does not fail for them."
	}
	return s + " It took " + took(r.Seconds) + "."
}

// Markdown writes the report as a section of a document: the circumstances, and for each experiment
// its claims, its tables, what else went wrong, and its notes.
func Markdown(w io.Writer, r *Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s, %s, `%s`\n\n", r.title(), r.Started.UTC().Format("2006-01-02"), r.Command)
	about := fmt.Sprintf("**%s**: %s %s; %s; commit %s.", r.Verdict(), r.Summary(), r.Machine, cmp.Or(r.Machine.Servers, "no servers"), r.Commit)
	b.WriteString(wrap(about, textWidth, "") + "\n")
	for i := range r.Experiments {
		e := &r.Experiments[i]
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n", e.Title, wrap(e.Summary, textWidth, ""))
		for i, t := range append([]Table{e.claims()}, e.Tables...) {
			if i > 0 {
				b.WriteByte('\n')
			}
			if err := t.WriteMarkdown(&b); err != nil {
				return err
			}
		}
		var items []string
		for _, f := range keep(e.findings(), func(f Finding) bool { return f.Claim == nil }) {
			items = append(items, fmt.Sprintf("**%s** %s (%s)", f.Word, f, f.Why))
		}
		for i, item := range append(items, e.Notes...) {
			if i == 0 {
				b.WriteByte('\n')
			}
			b.WriteString(wrap("- "+item, textWidth, "  ") + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return written("report", err)
}

// claims is the table of all claims of the experiment.
func (e *Experiment) claims() Table {
	t := Table{Columns: []string{"claim", "bound or prediction", "observed", "ratio", "outcome", "figures"}}
	for _, c := range e.Claims {
		t.Rows = append(t.Rows, []string{
			c.Text, quantity(c.Predicted, c.Unit), quantity(c.Observed, c.Unit), ratio(c.Observed, c.Predicted), c.Word(), c.Why,
		})
	}
	return t
}

func (r *Report) title() string { return cmp.Or(r.Title, "Keypool load test") }
