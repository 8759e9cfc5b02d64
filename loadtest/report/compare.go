package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Comparison is two runs side by side, A and B.
type Comparison struct {
	// Differences are the circumstances that differ. Figures of runs under different
	// circumstances say little about each other.
	Differences Table
	Claims      Table // of either run, those of A first; "!" marks another outcome
	Changed     int   // claims with another outcome, or of one run only
}

// Compare sets two runs side by side. A claim is the same in both when its name and the name of
// its experiment are.
func Compare(a, b *Report) *Comparison {
	c := &Comparison{
		Differences: Table{Columns: []string{"different", "A", "B"}, Rows: differences(a, b)},
		Claims:      Table{Columns: []string{"", "claim", "A", "B", "predicted", "observed A", "observed B", "B / A"}},
	}
	for experiment, inA := range a.claims {
		c.add(experiment, inA, b.find(experiment, inA.Name))
	}
	for experiment, inB := range b.claims {
		if a.find(experiment, inB.Name) == nil {
			c.add(experiment, nil, inB)
		}
	}
	return c
}

// claims yields each claim with the name of its experiment.
func (r *Report) claims(yield func(string, *Claim) bool) {
	for i := range r.Experiments {
		e := &r.Experiments[i]
		for j := range e.Claims {
			if !yield(e.Name, &e.Claims[j]) {
				return
			}
		}
	}
}

// find returns nil when the run does not make the claim.
func (r *Report) find(experiment, claim string) *Claim {
	for name, c := range r.claims {
		if name == experiment && c.Name == claim {
			return c
		}
	}
	return nil
}

// add adds the row of a claim, which may be missing in one of the runs.
func (c *Comparison) add(experiment string, inA, inB *Claim) {
	sign := ""
	if inA == nil || inB == nil || inA.Outcome != inB.Outcome {
		c.Changed++
		sign = "!"
	}
	a, b := cmp.Or(inA, &Claim{}), cmp.Or(inB, &Claim{})
	c.Claims.Rows = append(c.Claims.Rows, []string{
		sign, experiment + " " + cmp.Or(a.Name, b.Name), cmp.Or(string(a.Outcome), nothing), cmp.Or(string(b.Outcome), nothing), predictions(inA, inB),
		quantity(a.Observed, a.Unit), quantity(b.Observed, b.Unit), ratio(b.Observed, a.Observed),
	})
}

// predictions is what was predicted, twice where the runs differ.
func predictions(a, b *Claim) string {
	var all []string
	for _, c := range []*Claim{a, b} {
		if c != nil {
			all = append(all, quantity(c.Predicted, c.Unit))
		}
	}
	if len(all) == 2 && all[0] != all[1] {
		return all[0] + " / " + all[1]
	}
	return all[0]
}

// WriteText writes the comparison for a terminal: what differs between the runs, a line for
// each claim, and how many have another outcome.
func (c *Comparison) WriteText(w io.Writer) error { return c.write(w, Table.WriteText) }

// WriteMarkdown writes the same as tables of GitHub's Markdown.
func (c *Comparison) WriteMarkdown(w io.Writer) error { return c.write(w, Table.WriteMarkdown) }

func (c *Comparison) write(w io.Writer, table func(Table, io.Writer) error) error {
	var b strings.Builder
	if len(c.Differences.Rows) > 0 {
		if err := table(c.Differences, &b); err != nil {
			return err
		}
		b.WriteString("\n")
	}
	if err := table(c.Claims, &b); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n%d of %s with another outcome or in one run only.\n", c.Changed, count(len(c.Claims.Rows), "claim"))
	_, err := io.WriteString(w, b.String())
	return written("comparison", err)
}

// differences are rows of a circumstance and what it was in each run.
func differences(a, b *Report) [][]string {
	inA, inB := circumstances(a, b), circumstances(b, a)
	both := maps.Clone(inA)
	maps.Copy(both, inB)
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if inA[name] != inB[name] {
			rows = append(rows, []string{name, cmp.Or(inA[name], nothing), cmp.Or(inB[name], nothing)})
		}
	}
	return rows
}

// circumstances are what the figures of a run depend on, by name, for the experiments that
// the other run has too.
func circumstances(r, other *Report) map[string]string {
	all := map[string]string{
		"commit": r.Commit, "command": r.Command, "full size": fmt.Sprint(r.Full), "interrupted": fmt.Sprint(r.Interrupted),
		"system": r.Machine.OS, "processor": r.Machine.CPU, "cores": fmt.Sprint(r.Machine.Cores),
		"memory, GiB": fmt.Sprint(r.Machine.MemGiB), "Go": r.Machine.Go, "servers": r.Machine.Servers,
	}
	for i := range r.Experiments {
		e := &r.Experiments[i]
		if !slices.ContainsFunc(other.Experiments, func(o Experiment) bool { return o.Name == e.Name }) {
			continue
		}
		all["error of "+e.Name] = e.Error
		for name, value := range e.Settings {
			all[e.Name+" "+name] = value
		}
	}
	return all
}
