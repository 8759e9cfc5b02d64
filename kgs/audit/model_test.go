package audit

import (
	"cmp"
	"maps"
	"slices"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
)

// reading is what one pass of an audit reads.
type reading struct {
	before, after ledger.Snapshot
	pool          []kgs.PoolEntry
	links         []Linked
}

// modelPass is a simple pass of an audit. It looks at one code after the other and keeps all codes
// in maps.
type modelPass struct {
	space            *codespace.Space
	reading          reading
	places           map[string]place    // the key is a code; only a reserved code has an entry
	links            map[string]linkKind // the key is a code; only a code with a link has an entry
	reasons          []string
	raw              map[Fault]bool // faults of this pass; some of them may be keys that moved during the pass
	codesWithoutRank map[string]bool
	accounts         Accounts
}

func newModelPass(space *codespace.Space, r reading) *modelPass {
	m := &modelPass{
		space: space, reading: r, places: map[string]place{}, links: map[string]linkKind{},
		raw: map[Fault]bool{}, codesWithoutRank: map[string]bool{},
		accounts: Accounts{Abandoned: map[string]int64{}, Links: map[string]int64{}, Epochs: []EpochAccounts{}},
	}
	for _, s := range r.before.Spaces {
		for n := range s.Next {
			m.places[space.Code(s.Length, n)] = nowhere
		}
	}
	m.addRows()
	m.addPool()
	m.addLinks()
	return m
}

// placeIn returns the place of a code in the rows of a snapshot. live is the number of rows from which the
// code could be handed out.
func (m *modelPass) placeIn(b ledger.Snapshot, code string) (greatest place, live int) {
	length, n, _ := m.space.Number(code)
	for _, r := range b.Rows {
		if r.Length != length || n < r.Lo || n >= r.Hi {
			continue
		}
		w := map[ledger.State]place{ledger.StateShipping: shipping, ledger.StateReserved: reserved, ledger.StateBatch: ledgerBatch}[r.State]
		if r.State == ledger.StateAbandoned {
			w = abandoned + place(slices.Index(m.reasons, r.Reason))
			live--
		}
		greatest = max(greatest, w)
		live++
	}
	return greatest, live
}

// addRows adds the rows. If two rows abandon a number for different reasons, the number gets the reason
// that is later in m.reasons.
func (m *modelPass) addRows() {
	for _, r := range slices.Concat(m.reading.before.Rows, m.reading.after.Rows) {
		used := slices.ContainsFunc(m.reading.before.Spaces, func(s ledger.SpaceCounter) bool { return s.Length == r.Length && r.Lo < s.Next })
		if used && r.State == ledger.StateAbandoned && !slices.Contains(m.reasons, r.Reason) {
			m.reasons = append(m.reasons, r.Reason)
		}
	}
	for code := range m.places {
		w, live := m.placeIn(m.reading.before, code)
		m.places[code] = w
		if live > 1 {
			m.raw[Fault{FaultDuplicate, code}] = true
		}
	}
}

func (m *modelPass) addPool() {
	for _, entry := range m.reading.pool {
		w, ok := m.places[entry.Code]
		if !ok {
			m.addUnreserved(entry.Code)
			continue
		}
		if w >= reserved && w < abandoned {
			m.raw[Fault{FaultDuplicate, entry.Code}] = true
		}
		m.places[entry.Code] = max(w, map[bool]place{false: pooled, true: sharedBatch}[entry.InBatch])
	}
}

func (m *modelPass) addLinks() {
	for _, l := range m.reading.links {
		m.accounts.Links[l.Source]++
		w, ok := m.places[l.Code]
		kind := linkOf(l.Source)
		if kind == clientLink && w != ledgerBatch && w < abandoned {
			kind = conflict
		}
		if !ok && kind != conflict {
			m.addUnreserved(l.Code)
		}
		if ok && kind != conflict && (w == reserved || w == pooled) {
			m.raw[Fault{FaultReused, l.Code}] = true
		}
		if ok {
			m.links[l.Code] = kind
		}
	}
}

// addUnreserved adds a key that was not reserved when the pass began. If the code has no number, addUnreserved adds it to
// codesWithoutRank. If the number is still not reserved at the end of the pass, the key is a fault.
func (m *modelPass) addUnreserved(code string) {
	length, n, err := m.space.Number(code)
	if err != nil {
		m.codesWithoutRank[code] = true
		return
	}
	reserved := func(s ledger.SpaceCounter) bool { return s.Length == length && n < s.Next }
	if !slices.ContainsFunc(m.reading.after.Spaces, reserved) {
		m.raw[Fault{FaultForeign, code}] = true
	}
}

// epochOf returns the epoch of a number, and whether the epoch is over.
func (m *modelPass) epochOf(length int, n int64) (epoch int64, over bool) {
	for _, b := range m.reading.before.Boundaries {
		if b.Length == length {
			epoch, over = choose(b.Next <= n, b.Number, epoch), b.Next > n
		}
	}
	return epoch, over
}

func choose[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}

// sum counts each reserved number. candidates is nil in the first pass.
func (m *modelPass) sum(candidates map[Fault]bool) (found map[Fault]bool) {
	epochs := map[int64]*EpochAccounts{}
	for code := range m.places {
		length, n, _ := m.space.Number(code)
		number, over := m.epochOf(length, n)
		if epochs[number] == nil {
			epochs[number] = newEpochs([]section{{epoch: number}})[0]
		}
		epochs[number].Reserved++
		m.sumNumber(epochs[number], code, over, candidates)
	}
	found = map[Fault]bool{}
	for f := range m.raw {
		if candidates == nil || candidates[f] {
			found[f] = true
		}
	}
	for _, number := range slices.Sorted(maps.Keys(epochs)) {
		m.accounts.add(epochs[number])
	}
	return found
}

func (m *modelPass) sumNumber(e *EpochAccounts, code string, over bool, candidates map[Fault]bool) {
	p := pass{reasons: m.reasons}
	if kind, ok := m.links[code]; ok {
		var links [linkKinds]int64
		links[kind] = 1
		p.sumLinks(e, links)
		return
	}
	w := m.places[code]
	if w == nowhere && !over {
		w, _ = m.placeIn(m.reading.after, code)
		if w == nowhere {
			f := Fault{FaultMissing, code}
			m.raw[f] = true
			*choose(candidates == nil || candidates[f], &e.Missing, &e.OnTheMove)++
			return
		}
	}
	p.put(e, w, 1)
}

// runModel audits the readings of up to three passes.
func runModel(space *codespace.Space, readings []reading) Accounts {
	var candidates map[Fault]bool
	for i := 0; ; i++ {
		m := newModelPass(space, readings[i])
		found := m.sum(candidates)
		if len(found) > 0 && i < auditPasses-1 {
			candidates = found
			continue
		}
		for code := range m.codesWithoutRank {
			found[Fault{FaultForeign, code}] = true
		}
		for _, f := range slices.SortedFunc(maps.Keys(found), byKindAndRank(space)) {
			m.accounts.addFaults(f.Kind, 1, f.Code)
		}
		return m.accounts
	}
}

// byKindAndRank returns the order in which an audit lists its faults.
func byKindAndRank(space *codespace.Space) func(a, b Fault) int {
	kinds := []FaultKind{FaultMissing, FaultDuplicate, FaultReused, FaultForeign}
	rank := func(f Fault) int64 {
		if rank, ok := space.Rank(f.Code); ok {
			return rank
		}
		return 1 << 60
	}
	return func(a, b Fault) int {
		return cmp.Or(
			cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)),
			cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Code, b.Code))
	}
}
