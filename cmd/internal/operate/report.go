package operate

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"keypool/kgs/audit"
)

// shownFaults is the maximum number of faults in the text report. The JSON report contains up to
// [audit.MaxListed] faults of each kind.
const shownFaults = 20

// PrintAccounts writes the result of an audit to w, as text or as JSON.
func PrintAccounts(w io.Writer, a audit.Accounts, asJSON bool) error {
	if asJSON {
		if a.FaultTotal() == 0 {
			a.Faults, a.FaultCounts = []audit.Fault{}, map[audit.FaultKind]int64{} // not null
		}
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			audit.Accounts
			Closes bool `json:"closes"`
		}{a, a.FaultTotal() == 0})
	}
	_, err := io.WriteString(w, epochTable(a.Epochs)+postgresPool(a.PostgresPool)+linksBySource(a.Links)+verdict(a))
	return err
}

// column is a column of the text report. For each epoch, it counts the reserved keys, the keys in one place, the keys
// on the move, or the missing keys.
type column struct {
	group, name string // heading, in two lines
	of          func(audit.EpochAccounts) int64
}

// columns returns a column for the reserved keys and a column for each place that contains keys. If keys are on the
// move or missing, columns also returns columns for these keys.
func columns(epochs []audit.EpochAccounts) []column {
	all := []column{{"", "reserved", func(e audit.EpochAccounts) int64 { return e.Reserved }}}
	add := func(group string, counts func(audit.EpochAccounts) map[string]int64) {
		names := make(map[string]bool)
		for _, e := range epochs {
			for name := range counts(e) {
				names[name] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			all = append(all, column{group, name, func(e audit.EpochAccounts) int64 { return counts(e)[name] }})
			group = "" // only the first column of a group shows the heading of the group
		}
	}
	single := func(name string, n func(audit.EpochAccounts) int64) {
		if slices.ContainsFunc(epochs, func(e audit.EpochAccounts) bool { return n(e) != 0 }) {
			all = append(all, column{"", name, n})
		}
	}
	single("shipping", func(e audit.EpochAccounts) int64 { return e.Shipping })
	add("in pool:", func(e audit.EpochAccounts) map[string]int64 { return e.InPool })
	add("in batches:", func(e audit.EpochAccounts) map[string]int64 { return e.InBatches })
	add("linked:", func(e audit.EpochAccounts) map[string]int64 { return e.Linked })
	add("abandoned:", func(e audit.EpochAccounts) map[string]int64 { return e.Abandoned })
	single("on the move", func(e audit.EpochAccounts) int64 { return e.OnTheMove })
	single("missing", func(e audit.EpochAccounts) int64 { return e.Missing })
	return all
}

// epochTable returns a table with a line for each epoch and a line for the total.
func epochTable(epochs []audit.EpochAccounts) string {
	var table strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	all := columns(epochs)
	line := func(first string, cell func(column) any) {
		text := first + "\t"
		for _, c := range all {
			text += fmt.Sprint(cell(c)) + "\t"
		}
		_, _ = fmt.Fprintln(t, text) // a strings.Builder does not fail
	}
	line("", func(c column) any { return c.group })
	line("epoch", func(c column) any { return c.name })
	for _, e := range epochs {
		line(fmt.Sprint(e.Epoch), func(c column) any { return c.of(e) })
	}
	line("total", func(c column) any {
		sum := int64(0)
		for _, e := range epochs {
			sum += c.of(e)
		}
		return sum
	})
	_ = t.Flush() // a strings.Builder does not fail
	var text string
	for line := range strings.Lines(table.String()) {
		text += strings.TrimRight(line, " \n") + "\n" // remove the padding of empty cells
	}
	return text
}

// postgresPool returns a line about the pool in PostgreSQL, or "" if p is nil.
func postgresPool(p *audit.PostgresPoolAccounts) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("PostgreSQL pool: %d keys available (%d of them are recorded as used and will be removed), %d reserved, %d used (%d linked, %d without a link). %d of the available and reserved keys have a link, but are not recorded as used yet.\n",
		p.Available, p.DrawnAgain, p.Reserved, p.Used, p.UsedLinked, p.Unlinked, p.Unsettled)
}

// linksBySource returns the number of links of each source. It includes links whose codes are not
// keys of the ledger.
func linksBySource(links map[string]int64) string {
	var counts []string
	for _, source := range slices.Sorted(maps.Keys(links)) {
		counts = append(counts, fmt.Sprintf("%d %s", links[source], source))
	}
	if counts == nil {
		return "No links.\n"
	}
	return "Links by source: " + strings.Join(counts, ", ") + ".\n"
}

// verdict says whether the accounts close, that is, whether each reserved key is in exactly one place. It names the first
// faults.
func verdict(a audit.Accounts) string {
	if a.FaultTotal() == 0 {
		return "The accounts close: every reserved number is in exactly one place.\n"
	}
	text := fmt.Sprintf("The accounts do not close. Faults: %d.\n", a.FaultTotal())
	shown := a.Faults[:min(len(a.Faults), shownFaults)]
	for _, f := range shown {
		text += fmt.Sprintf("  %s\n", f)
	}
	more := a.FaultTotal() - int64(len(shown))
	switch {
	case more == 0:
		return text
	case a.FaultTotal() == int64(len(a.Faults)):
		return text + fmt.Sprintf("  and %d more; --json lists all\n", more)
	default:
		return text + fmt.Sprintf("  and %d more (all faults by kind: %s); --json lists up to %d of each kind\n", more, faultsByKind(a.FaultCounts), audit.MaxListed)
	}
}

func faultsByKind(counts map[audit.FaultKind]int64) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[kind], kind))
	}
	return strings.Join(parts, ", ")
}
