package audit

import (
	"cmp"
	"context"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
)

// The audit must find the same places and faults as a simple model. The evidence is random: rows
// overlap, keys are in several places, links arrive in any order, and the evidence changes within
// and between the passes.
func TestAuditAndModelFindSameFaultsInRandomData(t *testing.T) {
	t.Parallel()
	secret, err := codespace.New(make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[FaultKind]int64)
	onTheMove := int64(0)
	for seed := range uint64(1500) {
		space := choose(seed%2 == 0, secret, codespace.Plain())
		// Most ledgers are small. Some have so many numbers that sets of ranks are joined several times.
		g := generator{rand.New(rand.NewPCG(seed, 0)), space, choose[int64](seed%150 == 0, 5000, 40)}
		readings := g.readings()
		want := runModel(space, readings)
		got, err := Run(t.Context(), evidenceOf(space, readings))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		wantSums(t, got)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: accounts (-model +audit):\n%s", seed, diff)
		}
		for kind, n := range got.FaultCounts {
			counts[kind] += n
		}
		onTheMove += got.OnTheMove
	}
	t.Logf("faults: %v; on the move: %d", counts, onTheMove)
	if len(counts) != 4 || onTheMove == 0 {
		t.Errorf("faults %v, and %d keys on the move; the test needs some of each kind", counts, onTheMove)
	}
}

// evidenceOf returns evidence in which each pass finds the next of the readings.
func evidenceOf(space *codespace.Space, readings []reading) Evidence {
	snapshots := 0
	present := func() reading { return readings[(snapshots-1)/2] }
	return Evidence{
		Space: space,
		Order: space,
		Snapshot: func(context.Context) (ledger.Snapshot, error) {
			snapshots++
			return choose(snapshots%2 == 1, present().before, present().after), nil
		},
		Epochs: onlyList(func(context.Context) (int64, error) { return present().before.Epoch.Number, nil }),
		Pool:   func(context.Context, map[int]int64) iter.Seq2[kgs.PoolEntry, error] { return noErrors(present().pool) },
		Links:  func(context.Context) iter.Seq2[Linked, error] { return noErrors(present().links) },
	}
}

// generator makes random evidence for an audit.
type generator struct {
	*rand.Rand
	space *codespace.Space
	size  int64 // snapshot reserves fewer than size numbers of each length
}

// beyond is how many numbers above the reserved numbers can occur in keys and rows.
const beyond = 5

// readings returns what three passes read. From pass to pass, links are added, and the ledger and
// the pool change.
func (g generator) readings() (all []reading) {
	r := reading{before: g.snapshot()}
	if r.before.Epoch.Number > 0 {
		r.pool = g.pool(r.before)
	}
	for range auditPasses {
		r.links = g.withLinks(r)
		r.after = g.later(r.before)
		all = append(all, r)
		r.before = g.later(r.after)
		r.pool = g.changed(r.pool)
	}
	return all
}

// snapshot returns a ledger with up to four epochs and up to two code lengths.
func (g generator) snapshot() (b ledger.Snapshot) {
	b.Epoch.Number = g.Int64N(5)
	for length := 3; length <= 3+g.IntN(2); length++ {
		next := g.Int64N(g.size)
		b.Spaces = append(b.Spaces, ledger.SpaceCounter{Length: length, Size: codespace.Size(length), Next: next})
		at := int64(0)
		for epoch := range b.Epoch.Number {
			at += g.Int64N(next - at + 1)
			b.Boundaries = append(b.Boundaries, ledger.Boundary{Epoch: ledger.Epoch{Number: epoch + 1}, Length: length, Next: at})
		}
	}
	slices.SortStableFunc(b.Boundaries, func(a, b ledger.Boundary) int { return cmp.Compare(a.Number, b.Number) })
	for range g.IntN(9) {
		b.Rows = append(b.Rows, g.row(b))
	}
	sortRows(b.Rows)
	return b
}

func (g generator) row(b ledger.Snapshot) (r ledger.Row) {
	s := b.Spaces[g.IntN(len(b.Spaces))]
	r.Length, r.Lo = s.Length, g.Int64N(s.Next+beyond)
	r.Hi = r.Lo + 1 + g.Int64N(s.Next/4+1)
	states := []ledger.State{ledger.StateReserved, ledger.StateBatch, ledger.StateShipping, ledger.StateAbandoned}
	if r.State = states[g.IntN(len(states))]; r.State == ledger.StateAbandoned {
		r.Reason = []string{kgs.ReasonCrash, kgs.ReasonLostReply, kgs.ReasonEpoch}[g.IntN(3)]
	}
	return r
}

func sortRows(rows []ledger.Row) {
	slices.SortFunc(rows, func(a, b ledger.Row) int {
		return cmp.Or(cmp.Compare(a.Length, b.Length), cmp.Compare(a.Lo, b.Lo))
	})
}

// later returns a later state of the ledger in the same epoch.
func (g generator) later(b ledger.Snapshot) ledger.Snapshot {
	b.Spaces, b.Rows = slices.Clone(b.Spaces), slices.Clone(b.Rows)
	if g.IntN(2) == 0 {
		b.Spaces[g.IntN(len(b.Spaces))].Next += g.Int64N(2 * beyond)
	}
	if len(b.Rows) > 0 && g.IntN(3) == 0 {
		b.Rows = b.Rows[1:]
	}
	if g.IntN(3) == 0 {
		b.Rows = append(b.Rows, g.row(b))
		sortRows(b.Rows)
	}
	return b
}

// code returns the code of a number that is reserved or will be reserved soon. A few of the codes have no number.
func (g generator) code(b ledger.Snapshot) string {
	if g.IntN(30) == 0 {
		return []string{"no_code", "x", "12345678901"}[g.IntN(3)]
	}
	s := b.Spaces[g.IntN(len(b.Spaces))]
	return g.space.Code(s.Length, g.Int64N(s.Next+beyond))
}

// pool returns a pool in which some keys are in order, some are in any order, and some occur twice.
func (g generator) pool(b ledger.Snapshot) (all []kgs.PoolEntry) {
	s := b.Spaces[g.IntN(len(b.Spaces))]
	lo := g.Int64N(s.Next + 1)
	for _, code := range g.space.Codes(codespace.Range{Length: s.Length, Lo: lo, Hi: lo + g.Int64N(s.Next-lo+beyond)}) {
		all = append(all, kgs.PoolEntry{Code: code})
	}
	for range g.Int64N(g.size / 2) {
		all = append(all, kgs.PoolEntry{Code: g.code(b), InBatch: g.IntN(2) == 0})
	}
	return all
}

// changed returns the pool after some keys have left it and some keys were moved to batches.
func (g generator) changed(pool []kgs.PoolEntry) (all []kgs.PoolEntry) {
	for _, entry := range pool {
		switch g.IntN(10) {
		case 0:
		case 1:
			entry.InBatch = true
			fallthrough
		default:
			all = append(all, entry)
		}
	}
	return all
}

// withLinks returns the links of r and further links. Each code has one link. The links are in the order
// of their ranks or in a random order.
func (g generator) withLinks(r reading) []Linked {
	all := slices.Clone(r.links)
	seen := make(map[string]bool)
	for _, l := range all {
		seen[l.Code] = true
	}
	add := func(code string) {
		sources := []string{kgs.SourcePool, kgs.SourcePool, kgs.SourcePool, kgs.SourceLedger, kgs.SourceKGS, kgs.SourceRandom, "alias"}
		if !seen[code] {
			seen[code] = true
			all = append(all, placed(g.space, code, sources[g.IntN(len(sources))]))
		}
	}
	share := []float64{0.02, 0.3, 0.6, 0.95}[g.IntN(4)]
	for _, s := range r.before.Spaces {
		for n := range s.Next + beyond {
			if g.Float64() < share {
				add(g.space.Code(s.Length, n))
			}
		}
	}
	for range g.IntN(3) {
		add(g.code(r.before))
	}
	g.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if g.IntN(2) == 0 {
		sortLinks(g.space, all)
	}
	return all
}

// sortLinks sorts the links in the order in which a link store yields them.
func sortLinks(space *codespace.Space, links []Linked) {
	rank := func(l Linked) int64 {
		if rank, ok := space.Rank(l.Code); ok {
			return rank
		}
		return 1 << 60
	}
	slices.SortFunc(links, func(a, b Linked) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Code, b.Code)) })
}
