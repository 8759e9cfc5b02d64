package report

import (
	"fmt"
	"maps"
	"slices"
)

// Comparison is two runs side by side, A and B.
type Comparison struct {
	// Differ are the circumstances that were not the same; figures of runs under different
	// ones say little about each other.
	Differ []Difference
	Claims []Compared // of either run, those of A first
}

// Difference is a circumstance with what it was in each run, "" where there was none.
type Difference struct{ What, A, B string }

// Compared is a claim in two runs; it is nil in a run that did not make it.
type Compared struct {
	Scenario, Name string
	A, B           *Claim
}

// Changed says that the claim came to another verdict, or was made in one of the runs
// only.
func (c Compared) Changed() bool { return c.A == nil || c.B == nil || c.A.Verdict != c.B.Verdict }

// Compare sets two runs side by side. A claim is the same in both when its name and its
// scenario's name are. The comparison refers to what the reports hold.
func Compare(a, b *Report) *Comparison {
	c := &Comparison{Differ: differences(a, b)}
	inB := claims(b)
	for _, claim := range claims(a) {
		if i := slices.IndexFunc(inB, claim.same); i >= 0 {
			claim.B = inB[i].A
			inB = slices.Delete(inB, i, i+1)
		}
		c.Claims = append(c.Claims, claim)
	}
	for _, claim := range inB {
		claim.A, claim.B = nil, claim.A
		c.Claims = append(c.Claims, claim)
	}
	return c
}

func (c Compared) same(o Compared) bool { return c.Scenario == o.Scenario && c.Name == o.Name }

// claims are those of one run, as A.
func claims(r *Report) []Compared {
	var all []Compared
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		for j := range s.Claims {
			all = append(all, Compared{Scenario: s.Name, Name: s.Claims[j].Name, A: &s.Claims[j]})
		}
	}
	return all
}

func differences(a, b *Report) []Difference {
	all := []Difference{
		{"commit", a.Commit, b.Commit},
		{"command", a.Command, b.Command},
		{"size", size(a), size(b)},
		{"ended", end(a), end(b)},
		{"system", a.Machine.OS, b.Machine.OS},
		{"processor", a.Machine.CPU, b.Machine.CPU},
		{"cores", fmt.Sprint(a.Machine.Cores), fmt.Sprint(b.Machine.Cores)},
		{"memory, GiB", fmt.Sprint(a.Machine.MemGiB), fmt.Sprint(b.Machine.MemGiB)},
		{"Go", a.Machine.Go, b.Machine.Go},
		{"servers", a.Machine.Servers, b.Machine.Servers},
	}
	all = append(all, settings("", a.Settings, b.Settings)...)
	for i := range a.Scenarios {
		inA := &a.Scenarios[i]
		j := slices.IndexFunc(b.Scenarios, func(s Scenario) bool { return s.Name == inA.Name })
		if j < 0 {
			continue // its claims will be missing, which says it
		}
		inB := &b.Scenarios[j]
		all = append(all, settings(inA.Name+" ", inA.Settings, inB.Settings)...)
		all = append(all, Difference{inA.Name + " error", inA.Error, inB.Error})
	}
	return slices.DeleteFunc(all, func(d Difference) bool { return d.A == d.B })
}

func size(r *Report) string {
	if r.Full {
		return "full"
	}
	return "scaled down"
}

func end(r *Report) string {
	if r.Interrupted {
		return "early"
	}
	return "by itself"
}

func settings(prefix string, a, b map[string]string) []Difference {
	both := maps.Clone(a)
	if both == nil {
		both = map[string]string{}
	}
	maps.Copy(both, b)
	var all []Difference
	for _, name := range slices.Sorted(maps.Keys(both)) {
		all = append(all, Difference{prefix + name, a[name], b[name]})
	}
	return all
}
