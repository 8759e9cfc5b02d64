package audit

import (
	"maps"
	"slices"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
)

// section is the numbers of one length that were first reserved in one epoch.
type section struct {
	codespace.Range
	epoch int64
	over  bool // true if a later epoch has begun; missing numbers are then lost with this epoch
}

// sections divides the numbers [0, next) of one length by epoch. A number belongs to the last epoch
// that was opened while the counter was at most the number.
func sections(b ledger.Snapshot, length int, next int64) []section {
	var cut []section
	newest, hi := true, next
	for _, at := range slices.Backward(b.Boundaries) { // by epoch
		if at.Length != length {
			continue
		}
		if at.Next < hi {
			cut = append(cut, section{codespace.Range{Length: length, Lo: at.Next, Hi: hi}, at.Number, !newest})
			hi = at.Next
		}
		newest = false
	}
	if hi > 0 {
		cut = append(cut, section{codespace.Range{Length: length, Lo: 0, Hi: hi}, 0, !newest})
	}
	return cut
}

func newEpochAccounts(number int64) *EpochAccounts {
	return &EpochAccounts{
		Epoch: number, InPool: map[string]int64{}, InBatches: map[string]int64{},
		Linked: map[string]int64{}, Abandoned: map[string]int64{},
	}
}

// count adds n to the count of name. It adds no entry if n is zero.
func count(counts map[string]int64, name string, n int64) {
	if n > 0 {
		counts[name] += n
	}
}

func total(counts map[string]int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// sum counts the places of the numbers by epoch, and adds the epochs to the totals.
func (p *pass) sum(b ledger.Snapshot) {
	epochs := make(map[int64]*EpochAccounts)
	for length, numbers := range p.places {
		for _, s := range sections(b, length, int64(len(numbers))) {
			if epochs[s.epoch] == nil {
				epochs[s.epoch] = newEpochAccounts(s.epoch)
			}
			p.sumSection(epochs[s.epoch], s)
		}
	}
	for _, number := range slices.Sorted(maps.Keys(epochs)) {
		p.accounts.add(epochs[number])
	}
}

func (p *pass) sumSection(e *EpochAccounts, s section) {
	var counts [poolLink + 1]int64
	for i, where := range p.places[s.Length][s.Lo:s.Hi] {
		counts[where]++
		if where != nowhere || s.over {
			continue
		}
		counts[nowhere]--
		if p.fault(FaultMissing, p.space.Code(s.Length, s.Lo+int64(i))) {
			e.Missing++
		} else {
			e.OnTheMove++
		}
	}
	e.Reserved += s.Len()
	e.Shipping += counts[shipping]
	count(e.InPool, RecordOfLedger, counts[reserved])
	count(e.InPool, RecordOfPool, counts[pooled])
	count(e.InBatches, RecordOfLedger, counts[ledgerBatch])
	count(e.InBatches, RecordOfPool, counts[sharedBatch])
	count(e.Linked, kgs.SourceKGS, counts[clientLink])
	count(e.Linked, kgs.SourceLedger, counts[ledgerLink])
	count(e.Linked, kgs.SourcePool, counts[poolLink])
	count(e.Abandoned, kgs.ReasonEpoch, counts[nowhere])
	count(e.Abandoned, kgs.ReasonConflict, counts[conflicted])
	for i, reason := range p.reasons {
		count(e.Abandoned, reason, counts[abandoned+place(i)])
	}
}

// add adds the accounts of an epoch to the totals.
func (a *Accounts) add(e *EpochAccounts) {
	a.Epochs = append(a.Epochs, *e)
	a.Reserved += e.Reserved
	a.InPool += total(e.InPool)
	a.InBatches += total(e.InBatches)
	a.Shipping += e.Shipping
	a.OnTheMove += e.OnTheMove
	a.Linked += total(e.Linked)
	for reason, n := range e.Abandoned {
		count(a.Abandoned, reason, n)
	}
}
