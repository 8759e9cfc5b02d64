package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Compare writes a comparison of two runs for a terminal: the command, commit and machine of each run, a line for
// each claim, and the number of changed claims. The claims of a come first, and then the claims that only b contains.
// "!" marks a claim whose outcome changed or that only one run contains. Two claims are the same if their names
// and the names of their experiments are equal.
func Compare(w io.Writer, a, b *Report) error {
	inA, names := a.claims()
	inB, more := b.claims()
	for _, name := range more {
		if inA[name] == nil {
			names = append(names, name)
		}
	}
	var rows strings.Builder
	changed := 0
	for _, name := range names {
		a, b, sign := cmp.Or(inA[name], &Claim{Outcome: dash}), cmp.Or(inB[name], &Claim{Outcome: dash}), ""
		if a.Outcome != b.Outcome {
			changed, sign = changed+1, "!"
		}
		fmt.Fprintf(&rows, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", sign, name, a.Outcome, b.Outcome,
			quantity(a.Observed, a.Unit), quantity(b.Observed, b.Unit), ratio(b.Observed, a.Observed))
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintf(out, "A: %s\nB: %s\n\n\tclaim\tA\tB\tobserved A\tobserved B\tB / A\n%s\n%d of %s have different outcomes or are in only one run.\n",
		a.circumstances(), b.circumstances(), &rows, changed, count(len(names), "claim"))
	return written("comparison", cmp.Or(err, out.Flush()))
}

// circumstances describes what the figures of a run depend on: date, command, commit and machine.
func (r *Report) circumstances() string {
	return fmt.Sprintf("%s, `%s`, commit %s; %s.", r.date(), r.Command, r.Commit, r.Machine)
}

func (r *Report) date() string { return r.Started.UTC().Format("2006-01-02") }

// claims returns all claims by name, and the names in order. A name consists of the name of the experiment and the
// name of the claim.
func (r *Report) claims() (byName map[string]*Claim, names []string) {
	byName = make(map[string]*Claim)
	for i := range r.Experiments {
		e := &r.Experiments[i]
		for j, c := range e.Claims {
			name := e.Name + " " + c.Name
			byName[name] = &e.Claims[j]
			names = append(names, name)
		}
	}
	return byName, names
}
