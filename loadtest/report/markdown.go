package report

import (
	"cmp"
	"fmt"
	"io"
	"keypool/internal/human"
	"strings"
	"time"
)

// markdownWidth is that of the text, in characters; tables are as wide as they are.
const markdownWidth = 120

// Markdown writes the tables of the report, with what one must know to read them and the
// claims that did not hold, as a section of a document.
func Markdown(w io.Writer, r *Report) error {
	var b strings.Builder
	para := func(text string) { b.WriteString(Wrap(text, markdownWidth, "") + "\n\n") }
	fmt.Fprintf(&b, "## %s, %s, `%s`\n\n", cmp.Or(r.Title, "Load test"), r.Started.Format(time.DateOnly), r.Command)
	para(fmt.Sprintf("%s; %s; commit %s; %s. %s.", r.Machine, r.Machine.Servers, r.Commit, human.Duration(r.Seconds), held(r.Tally())))
	for i := range r.Scenarios {
		s := r.Scenarios[i]
		fmt.Fprintf(&b, "### %s\n\n", s.Title)
		para(s.Summary)
		for _, t := range s.Tables {
			if err := t.WriteMarkdown(&b); err != nil {
				return err
			}
			b.WriteByte('\n')
		}
		list(&b, s)
	}
	if _, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n"); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// list writes what did not hold of a scenario, and its notes.
func list(b *strings.Builder, s Scenario) {
	var items []string
	for _, c := range s.Claims {
		if c.Verdict != Held {
			items = append(items, fmt.Sprintf("**%s**: %s %s", mark(c.Verdict).Word, c.Text, c.Why))
		}
	}
	if s.Error != "" {
		items = append(items, "**It did not run to its end**: "+s.Error)
	}
	for _, item := range append(items, s.Notes...) {
		b.WriteString(Wrap("- "+item, markdownWidth, "  ") + "\n")
	}
	if len(items)+len(s.Notes) > 0 {
		b.WriteByte('\n')
	}
}
