package audit

import (
	"cmp"
	"errors"
	"slices"

	"keypool/kgs"
	"keypool/kgs/ledger"
)

// errRepeated means that the link store has two rows with the same rank, so that the links cannot be counted.
var errRepeated = errors.New("the link store yields a code more than once")

// section holds the ranks of the numbers of one length that were first reserved in one epoch.
type section struct {
	span
	epoch int64
	over  bool // whether a later epoch that abandons keys has begun; if so, numbers in no place are lost with this epoch
}

// sections divides all reserved numbers by length and epoch, in the order of their ranks.
func sections(b ledger.Snapshot) (all []section) {
	for _, s := range b.Spaces { // the counters are in order of length
		all = append(all, sectionsOf(b, s.Length, s.Next)...)
	}
	return all
}

// sectionsOf divides the numbers [0, next) of one length by epoch. A number belongs to the newest epoch whose boundary
// is at most the number.
//
// The first epoch of a list other than list 0 abandons no keys, because no key was in the list
// before. So such an epoch does not end the earlier epochs.
func sectionsOf(b ledger.Snapshot, length int, next int64) (cut []section) {
	newest, hi := true, next
	first := firstEpochs(b)
	for _, at := range slices.Backward(b.Boundaries) { // the boundaries are in order of epoch
		if at.Length != length {
			continue
		}
		if at.Next < hi {
			cut = append(cut, section{spanOf(length, at.Next, hi), at.Number, !newest})
			hi = at.Next
		}
		if at.List == 0 || at.Number > first[at.List] {
			newest = false
		}
	}
	if hi > 0 {
		cut = append(cut, section{spanOf(length, 0, hi), 0, !newest})
	}
	slices.Reverse(cut)
	return cut
}

// firstEpochs returns the first epoch of each list.
func firstEpochs(b ledger.Snapshot) map[int]int64 {
	first := make(map[int]int64)
	for _, at := range b.Boundaries { // the boundaries are in order of epoch
		if _, known := first[at.List]; !known {
			first[at.List] = at.Number
		}
	}
	return first
}

// newEpochs returns the accounts of the sections. Sections of the same epoch share their
// accounts.
func newEpochs(all []section) []*EpochAccounts {
	byNumber := make(map[int64]*EpochAccounts)
	epochs := make([]*EpochAccounts, len(all))
	for i, s := range all {
		if byNumber[s.epoch] == nil {
			byNumber[s.epoch] = &EpochAccounts{
				Epoch: s.epoch, InPool: map[string]int64{}, InBatches: map[string]int64{},
				Linked: map[string]int64{}, Abandoned: map[string]int64{},
			}
		}
		epochs[i] = byNumber[s.epoch]
		epochs[i].Reserved += s.len()
	}
	return epochs
}

// sum counts the numbers by epoch and place, and adds the counts of the epochs to the totals. The parameter after has the
// rows of the ledger at the end of the pass.
func (p *pass) sum(after []ledger.Row) error {
	linked := p.linked.join()
	if p.repeated() {
		return errRepeated
	}
	epochs := newEpochs(p.sections)
	var open []span
	for i := range p.segments {
		s := &p.segments[i]
		p.sumLinks(epochs[s.section], s.links)
		if s.open {
			open = append(open, s.span)
			continue
		}
		p.put(epochs[s.section], s.place, s.len()-s.linked())
	}
	p.sumGaps(epochs, without(open, linked), after)
	slices.SortFunc(epochs, func(a, b *EpochAccounts) int { return cmp.Compare(a.Epoch, b.Epoch) })
	for _, e := range slices.Compact(epochs) {
		p.accounts.add(e)
	}
	return nil
}

// repeated reports whether some numbers certainly have more than one link. The set p.linked must be joined.
func (p *pass) repeated() bool {
	return len(p.linked.again) > 0 ||
		slices.ContainsFunc(p.segments, func(s segment) bool { return s.linked() > s.len() })
}

func (p *pass) sumLinks(e *EpochAccounts, links [linkKinds]int64) {
	count(e.Abandoned, kgs.ReasonConflict, links[conflict])
	count(e.Linked, kgs.SourceKGS, links[clientLink])
	count(e.Linked, kgs.SourceLedger, links[ledgerLink])
	count(e.Linked, kgs.SourcePool, links[poolLink])
}

// sumGaps counts the numbers of the present epoch that had no place and no link. The parameter after has the rows of the
// ledger at the end of the pass. They contain the numbers that moved to the ledger during the pass. The other numbers
// are missing or on the move.
func (p *pass) sumGaps(epochs []*EpochAccounts, gaps []span, after []ledger.Row) {
	rows, _ := p.coverOf(after)
	lost := without(gaps, rows.separate())
	for w, spans := range rows {
		for i, s := range overlaps(p.reserved, both(gaps, spans)) {
			p.put(epochs[i], place(w), s.len())
		}
	}
	missing := p.keepConfirmed(FaultMissing, lost)
	for i, s := range overlaps(p.reserved, missing) {
		epochs[i].Missing += s.len()
	}
	for i, s := range overlaps(p.reserved, without(lost, missing)) {
		epochs[i].OnTheMove += s.len()
	}
}

// put adds n numbers without a link to the accounts of a place.
func (p *pass) put(e *EpochAccounts, w place, n int64) {
	switch w {
	case nowhere: // lost with an earlier epoch
		count(e.Abandoned, kgs.ReasonEpoch, n)
	case shipping:
		e.Shipping += n
	case reserved:
		count(e.InPool, RecordOfLedger, n)
	case pooled:
		count(e.InPool, RecordOfPool, n)
	case ledgerBatch:
		count(e.InBatches, RecordOfLedger, n)
	case sharedBatch:
		count(e.InBatches, RecordOfPool, n)
	default:
		count(e.Abandoned, p.reasons[w-abandoned], n)
	}
}

// count adds n to the count of name. It adds no entry if n is zero.
func count(counts map[string]int64, name string, n int64) {
	if n > 0 {
		counts[name] += n
	}
}

func total[K comparable](counts map[K]int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
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
