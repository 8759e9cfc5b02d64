package kgs

import (
	"maps"
	"slices"
)

// section is the numbers of one length that were first reserved in one epoch.
type section struct {
	Run
	epoch int64
	over  bool // a later epoch has begun: what is nowhere was lost with it
}

// sections cuts the numbers of a length below next by epoch: each is of the last epoch
// that was opened when the counter stood at it or before it.
func sections(b Books, length int, next int64) []section {
	var cut []section
	newest, hi := true, next
	for _, at := range slices.Backward(b.Boundaries) { // by epoch
		if at.Length != length {
			continue
		}
		if at.Next < hi {
			cut = append(cut, section{Run{length, at.Next, hi}, at.Number, !newest})
			hi = at.Next
		}
		newest = false
	}
	if hi > 0 {
		cut = append(cut, section{Run{length, 0, hi}, 0, !newest})
	}
	return cut
}

// sum counts the places, epoch by epoch, and adds up the epochs.
func (p *pass) sum(b Books) {
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

func newEpochAccounts(number int64) *EpochAccounts {
	return &EpochAccounts{
		Epoch: number, InPool: map[string]int64{}, InBatches: map[string]int64{},
		Linked: map[string]int64{}, Abandoned: map[string]int64{},
	}
}

func (p *pass) sumSection(e *EpochAccounts, s section) {
	var counts [pooledLink + 1]int64
	for i, where := range p.places[s.Length][s.Lo:s.Hi] {
		counts[where]++
		if where != nowhere || s.over {
			continue
		}
		counts[nowhere]--
		if p.accuse(FaultMissing, p.space.Code(s.Length, s.Lo+int64(i))) {
			e.Missing++
		} else {
			e.OnTheMove++
		}
	}
	e.Reserved += s.Len()
	e.Shipping += counts[shipping]
	count(e.InPool, BooksOfLedger, counts[reserved])
	count(e.InPool, BooksOfPool, counts[pooled])
	count(e.InBatches, BooksOfLedger, counts[ledgerBatch])
	count(e.InBatches, BooksOfPool, counts[sharedBatch])
	count(e.Linked, SourceKGS, counts[clientLink])
	count(e.Linked, SourceLedger, counts[ledgerLink])
	count(e.Linked, SourcePool, counts[pooledLink])
	count(e.Abandoned, ReasonEpoch, counts[nowhere])
	count(e.Abandoned, ReasonConflict, counts[conflicted])
	for i, reason := range p.reasons {
		count(e.Abandoned, reason, counts[abandoned+place(i)])
	}
}

// count adds n under a name; a name without a number is left out.
func count(counts map[string]int64, name string, n int64) {
	if n > 0 {
		counts[name] += n
	}
}

// add adds the accounts of an epoch.
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

func total(counts map[string]int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}
