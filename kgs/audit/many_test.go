package audit

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
)

// ledgerOf returns a ledger in epoch 1 that has reserved the numbers [0, next) of one length.
func ledgerOf(length int, next int64, rows ...ledger.Row) ledger.Snapshot {
	return ledger.Snapshot{
		Epoch:      ledger.Epoch{Number: 1},
		Spaces:     []ledger.SpaceCounter{{Length: length, Size: codespace.Size(length), Next: next}},
		Boundaries: []ledger.Boundary{{Epoch: ledger.Epoch{Number: 1}, Length: length}},
		Rows:       rows,
	}
}

// same returns the same reading for each pass.
func same(r reading) []reading {
	r.after = r.before
	return []reading{r, r, r}
}

// The audit must not keep anything for each number. The test compares the memory in use before
// the audit and at the last of two million links. The limit is one bit for each link.
func TestAuditMemoryDoesNotGrowWithNumberOfLinks(t *testing.T) {
	const links, waiting, length, limit = 2_000_000, 500_000, 6, 250_000
	space, err := codespace.New(make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	codes := string(space.AppendCodes(nil, codespace.Range{Length: length, Hi: links + waiting}))
	e := evidenceOf(space, same(reading{before: ledgerOf(length, links+waiting)}))
	e.Pool = func(context.Context, map[int]int64) iter.Seq2[kgs.PoolEntry, error] {
		return eachCode(codes[links*length:], length, func(code string) kgs.PoolEntry { return kgs.PoolEntry{Code: code} })
	}
	var last int64
	e.Links = func(context.Context) iter.Seq2[Linked, error] {
		n := 0
		return eachCode(codes[:links*length], length, func(code string) Linked {
			if n++; n == links {
				last = heapInUse()
			}
			return placed(space, code, kgs.SourcePool)
		})
	}
	first := heapInUse()
	a, err := Run(t.Context(), e)
	if err != nil || a.FaultTotal() > 0 || a.Linked != links || a.InPool != waiting {
		t.Fatalf("the audit gives the accounts %+v, error %v; want no fault, and each number in a link or in the pool",
			a, err)
	}
	if last-first > limit {
		t.Errorf("the memory grew by %d bytes while the audit read %d links, want at most %d", last-first, links, limit)
	}
	t.Logf("the memory grew by %d bytes", last-first)
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Links in an order that is not the order of their ranks need more memory, but give the same
// accounts.
func TestAuditAcceptsLinksInAnyOrder(t *testing.T) {
	t.Parallel()
	const numbers = 50_000
	space := codespace.Plain()
	r := reading{before: ledgerOf(6, numbers)}
	for _, code := range space.Codes(codespace.Range{Length: 6, Hi: numbers - 10}) {
		r.links = append(r.links, placed(space, code, kgs.SourcePool))
	}
	rand.New(rand.NewPCG(1, 0)).Shuffle(len(r.links), func(i, j int) { r.links[i], r.links[j] = r.links[j], r.links[i] })
	a, err := Run(t.Context(), evidenceOf(space, same(r)))
	want := map[FaultKind]int64{FaultMissing: 10}
	if diff := cmp.Diff(want, a.FaultCounts); err != nil || diff != "" || a.Linked != numbers-10 {
		t.Errorf("%d numbers are linked, error %v; faults (-want +got):\n%s", a.Linked, err, diff)
	}
}

// manyFaults returns a reading with n faults of each kind. Each kind has its own 10,000 numbers, and
// its faults are the first n of them. In addition, n foreign codes have no number.
func manyFaults(space *codespace.Space, n int64) (r reading) {
	const block = 10_000
	r.before = ledgerOf(6, 3*block)
	add := func(lo, hi int64, what func(string)) {
		for _, code := range space.Codes(codespace.Range{Length: 6, Lo: lo, Hi: hi}) {
			what(code)
		}
	}
	push := func(code string) { r.pool = append(r.pool, kgs.PoolEntry{Code: code}) }
	link := func(code string) { r.links = append(r.links, placed(space, code, kgs.SourcePool)) }
	add(n, block, link)           // [0, n) is missing
	add(block, 2*block, push)     // [block, block+n) is in the pool twice
	add(block, block+n, push)     //
	add(2*block, 3*block, link)   // [2*block, 2*block+n) has links, and is in the pool too
	add(2*block, 2*block+n, push) //
	add(3*block, 3*block+n, link) // [3*block, 3*block+n) is foreign
	add(0, n, func(code string) { link("_" + code) })
	return r
}

// If there are too many faults to list, the audit must still count all faults. It must also compare all
// faults of the passes, and not only the listed faults. The last pass has fewer faults than the other
// passes, so only the faults of the last pass count.
func TestAuditCountsAllFaultsEvenIfListOfFaultsIsFull(t *testing.T) {
	t.Parallel()
	const first, last = 3000, 2500
	space := codespace.Plain()
	readings := same(manyFaults(space, first))
	readings[2] = same(manyFaults(space, last))[0]
	got, err := Run(t.Context(), evidenceOf(space, readings))
	if err != nil {
		t.Fatal(err)
	}
	wantSums(t, got)
	want := map[FaultKind]int64{FaultMissing: last, FaultDuplicate: last, FaultReused: last, FaultForeign: 2 * last}
	if diff := cmp.Diff(want, got.FaultCounts); diff != "" || got.FaultTotal() != 5*last {
		t.Errorf("%d faults by kind (-want +got):\n%s", got.FaultTotal(), diff)
	}
	if missing := got.Epochs[0].Missing; missing != last {
		t.Errorf("%d missing numbers in the epoch, want %d", missing, last)
	}
	if len(got.Faults) != 4*MaxListed {
		t.Errorf("%d faults in the list, want %d", len(got.Faults), 4*MaxListed)
	}
	for i, kind := range []FaultKind{FaultMissing, FaultDuplicate, FaultReused, FaultForeign} {
		lo := int64(i) * 10_000
		for n, code := range space.Codes(codespace.Range{Length: 6, Lo: lo, Hi: lo + MaxListed}) {
			if f := got.Faults[i*MaxListed+n]; f != (Fault{kind, code}) {
				t.Fatalf("fault %d is %v, want the fault %s of %s", i*MaxListed+n, f, kind, code)
			}
		}
	}
}

// The primary keys of a link store prevent two rows with the same code. If there are two such rows,
// the audit cannot count the numbers.
func TestAuditFailsIfCodeHasTwoLinks(t *testing.T) {
	t.Parallel()
	space := codespace.Plain()
	for name, rows := range map[string][]ledger.Row{
		"the code is in no row of the ledger": nil,
		"the code is in an abandoned row":     {{Reservation: reservationOf(0, 2), State: ledger.StateAbandoned, Reason: kgs.ReasonCrash}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := reading{before: ledgerOf(6, 2, rows...)}
			for _, n := range []int64{0, 1, 0} {
				r.links = append(r.links, placed(space, space.Code(6, n), kgs.SourcePool))
			}
			if a, err := Run(t.Context(), evidenceOf(space, same(r))); !errors.Is(err, errRepeated) {
				t.Errorf("accounts %+v, error %v; want %v", a, err, errRepeated)
			}
		})
	}
}

func reservationOf(lo, hi int64) (r ledger.Reservation) {
	r.Length, r.Lo, r.Hi = 6, lo, hi
	return r
}
