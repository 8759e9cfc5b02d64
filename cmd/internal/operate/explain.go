package operate

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"keypool/kgs/explain"
)

// PrintExplanation writes the explanation of a code to w, as text or as JSON.
func PrintExplanation(w io.Writer, x explain.Explanation, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(x)
	}
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fact := func(name, format string, args ...any) { // a strings.Builder does not fail
		_, _ = fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	fact("code", "%s", x.Code)
	fact("status", "%s", x.Status)
	fact("reason", "%s", x.Reason)
	if x.KeySource != "" {
		fact("source", "%s: %s", x.KeySource, x.Origin)
	}
	explainNumber(fact, x)
	explainRecords(fact, x)
	explainLink(fact, x.Link)
	for _, line := range x.NotRecorded {
		fact("not recorded", "%s", line)
	}
	_ = t.Flush() // a strings.Builder does not fail
	_, err := io.WriteString(w, text.String())
	return err
}

// printFact prints one line.
type printFact func(name, format string, args ...any)

func explainNumber(fact printFact, x explain.Explanation) {
	if n := x.Number; n != nil {
		fact("number", "%s of %s codes of %d characters", humanize.Comma(n.Number), humanize.Comma(n.Size), n.Length)
	}
	if x.Epoch != nil {
		when := ""
		if *x.Epoch == 0 {
			when = " (before the first shared pool)"
		}
		fact("epoch", "%d%s", *x.Epoch, when)
	}
	if r := x.Range; r != nil {
		fact("range", "%d: numbers %s to %s, %s%s", r.ID, humanize.Comma(r.Lo), humanize.Comma(r.Hi-1), r.State, strings.TrimSuffix(" "+r.Reason, " "))
		fact("holder", "%s", orNone(r.Holder))
	}
}

func explainRecords(fact printFact, x explain.Explanation) {
	if s := x.Snowflake; s != nil {
		fact("time", "%s", s.Time.Format(time.RFC3339Nano))
		fact("machine", "%d, sequence number %d", s.Machine, s.Sequence)
		if !s.Until.IsZero() {
			fact("machine id", "reserved until %s, holder now: %s", s.Until.Format(time.RFC3339Nano), orNone(s.Holder))
		}
	}
	if p := x.Pool; p != nil {
		fact("pool row", "id %d, reserved %s, used %s, holder %s", p.ID, momentOrNever(p.ReservedAt), momentOrNever(p.UsedAt), orNone(p.Holder))
	}
}

func explainLink(fact printFact, l *explain.Link) {
	if l == nil {
		fact("link", "none")
		return
	}
	kind := "fixed"
	if l.Editable {
		kind = "editable"
	}
	fact("link", "%s", l.URL)
	fact("state", "%s, %s, version %d, owner %s", l.State, kind, l.Version, orNone(l.Owner))
	fact("created", "%s, expires %s, deleted %s", momentOrNever(l.CreatedAt), momentOrNever(l.ExpiresAt), momentOrNever(l.DeletedAt))
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

func momentOrNever(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}
