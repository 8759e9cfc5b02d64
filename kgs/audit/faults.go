package audit

import (
	"slices"
	"strings"

	"keypool/kgs/codespace"
)

// MaxListed is the maximum number of faults of each kind in [Accounts.Faults].
const MaxListed = 1000

// FaultKind is a reason why the accounts do not close.
type FaultKind string

// The kinds of faults.
const (
	FaultMissing    FaultKind = "missing"    // the code is reserved, but in no place
	FaultDuplicate  FaultKind = "duplicate"  // the code is in more than one place that hands out keys
	FaultReused     FaultKind = "reused"     // a link has the code, but the code still waits to be handed out
	FaultForeign    FaultKind = "foreign"    // the code was never reserved, but is in the pool or is the key of a link
	FaultUnrecorded FaultKind = "unrecorded" // a link has a key of the PostgreSQL pool, but the pool has no row of the key
	FaultMisplaced  FaultKind = "misplaced"  // the link store has a row of the code, but does not find the row by the code
)

// Fault is one code for which the accounts do not close.
type Fault struct {
	Kind FaultKind `json:"kind"`
	Code string    `json:"code"`
}

func (f Fault) String() string {
	switch f.Kind {
	case FaultMissing:
		return f.Code + " is missing: reserved, but not linked, not in a pool or batch, and not abandoned"
	case FaultDuplicate:
		return f.Code + " is a duplicate: waiting to be handed out in two places"
	case FaultReused:
		return f.Code + " is reused: linked, and yet waiting to be handed out again"
	case FaultUnrecorded:
		return f.Code + " is unrecorded: linked as a key of the PostgreSQL pool, which has no row for it"
	case FaultMisplaced:
		return f.Code + " is misplaced: its row does not have the rank of the code, so no request finds the row"
	default:
		return f.Code + " is foreign: used as a key of the ledger, which never reserved it"
	}
}

// FaultTotal returns the number of faults of all kinds, including the faults that Faults does not
// list. The accounts close if there is no fault.
func (a Accounts) FaultTotal() int64 { return total(a.FaultCounts) }

// addFaults counts n faults of one kind and lists them while there is room. codes must be the codes
// of all n faults, or of the first MaxListed of them.
func (a *Accounts) addFaults(kind FaultKind, n int64, codes ...string) {
	if n == 0 {
		return
	}
	if a.FaultCounts == nil {
		a.FaultCounts = make(map[FaultKind]int64)
	}
	room := max(0, MaxListed-a.FaultCounts[kind])
	for _, code := range codes[:min(int64(len(codes)), room)] {
		a.Faults = append(a.Faults, Fault{kind, code})
	}
	a.FaultCounts[kind] += n
}

// faultRanks holds the ranks of the faulty codes by kind, as ordered spans. A kind without faults has no entry.
type faultRanks map[FaultKind][]span

// keepConfirmed records and returns the faults of one kind that this pass found and the previous pass recorded. In the
// first pass, it records all faults. A fault that only this pass found is a key that moved during the pass.
func (p *pass) keepConfirmed(kind FaultKind, ranks []span) []span {
	if p.previous != nil {
		ranks = both(ranks, p.previous[kind])
	}
	if len(ranks) > 0 {
		p.found[kind] = ranks
	}
	return ranks
}

// reportFaults adds the faults of the pass to the accounts.
func (p *pass) reportFaults() {
	for _, kind := range []FaultKind{FaultMissing, FaultDuplicate, FaultReused, FaultForeign} {
		p.accounts.addFaults(kind, size(p.found[kind]), p.firstCodes(p.found[kind])...)
	}
	p.accounts.addFaults(FaultForeign, p.codesWithoutRank.n, p.codesWithoutRank.first()...)
	p.accounts.addFaults(FaultMisplaced, p.misplaced.n, p.misplaced.first()...)
}

// firstCodes returns the codes of the first MaxListed ranks.
func (p *pass) firstCodes(ranks []span) (codes []string) {
	for _, s := range ranks {
		for rank := s.lo; rank < s.hi; rank++ {
			if len(codes) == MaxListed {
				return codes
			}
			length, n := codespace.AtRank(rank)
			codes = append(codes, p.space.Code(length, n))
		}
	}
	return codes
}

// codes counts codes and keeps some of them. Its memory is bounded.
type codes struct {
	n    int64
	kept []string // contains the first MaxListed codes in order of their bytes
}

func (c *codes) add(code string) {
	c.n++
	c.kept = append(c.kept, strings.Clone(code)) // code may be a part of a long string
	if len(c.kept) == 2*MaxListed {
		c.kept = c.first()
	}
}

// first returns the first MaxListed codes.
func (c *codes) first() []string {
	slices.Sort(c.kept)
	return c.kept[:min(len(c.kept), MaxListed)]
}

// codesWithoutRank holds the codes without a rank that are used as keys of the ledger. No ledger can
// reserve such a code, so the code is a fault even if only one pass finds it. The memory depends on
// how many of these codes are in the pool, and not on how many links have such a code.
type codesWithoutRank struct {
	codes
	pool map[string]bool // the codes that are in the pool
}

// addPooled adds a code of the pool. The pool may have the code several times.
func (s *codesWithoutRank) addPooled(code string) {
	if s.pool == nil {
		s.pool = make(map[string]bool)
	}
	s.add(code)
	s.pool[strings.Clone(code)] = true // code may be a part of a long string
}

// add adds a code if the pool does not have the code.
func (s *codesWithoutRank) add(code string) {
	if !s.pool[code] {
		s.codes.add(code)
	}
}
