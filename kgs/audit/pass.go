package audit

import (
	"iter"
	"slices"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
)

// place is where a number was found. If a number was found in two places, the greater place
// counts, because keys move from smaller to greater places.
type place uint8

const (
	nowhere     place = iota
	shipping          // on its way to the shared pool
	reserved          // in the ledger: for a pool in a process, or without a holder
	pooled            // in the shared pool
	ledgerBatch       // in a batch that the ledger has on record
	sharedBatch       // in a batch that the shared pool has on record
	abandoned         // abandoned+i means abandoned for the i-th reason
	conflicted  = 252 // linked, but not as a key of this ledger
	clientLink  = 253 // linked, as a key of SourceKGS
	ledgerLink  = 254 // linked, as a key of SourceLedger
	poolLink    = 255 // linked, as a key of SourcePool
	maxReasons  = int(conflicted - abandoned)
)

// waits reports whether the number waits to be handed out or is in a batch.
func (w place) waits() bool { return w >= reserved && w < abandoned }

// leased reports whether a client of this ledger may have the number, from an open lease or from
// a lease that has ended.
func (w place) leased() bool { return w == ledgerBatch || w >= abandoned && w < conflicted }

// pass is one reading of all evidence.
type pass struct {
	space      *codespace.Space
	places     [codespace.MaxLength + 1][]place // by length and number
	reasons    []string                         // reasons of abandonment, in the order of their first use
	beyond     []string                         // codes of keys that were not reserved when the pass began
	candidates map[Fault]bool                   // faults of the previous pass; nil in the first pass
	found      map[Fault]bool
	accounts   Accounts
}

func newPass(space *codespace.Space, b ledger.Snapshot, candidates map[Fault]bool) *pass {
	p := &pass{
		space: space, candidates: candidates, found: map[Fault]bool{},
		accounts: Accounts{Abandoned: map[string]int64{}, Links: map[string]int64{}, Epochs: []EpochAccounts{}},
	}
	for _, s := range b.Spaces {
		p.places[s.Length] = make([]place, s.Next)
	}
	return p
}

// fault records a fault if this is the first pass or the previous pass found the fault too. It
// reports whether it recorded the fault. If only this pass finds a fault, the key moved during
// the pass.
func (p *pass) fault(kind FaultKind, code string) bool {
	f := Fault{kind, code}
	if p.candidates != nil && !p.candidates[f] {
		return false
	}
	if !p.found[f] {
		p.found[f] = true
		p.accounts.Faults = append(p.accounts.Faults, f)
	}
	return true
}

// addRanges records the place of every number that has a row in the ledger.
func (p *pass) addRanges(b ledger.Snapshot) {
	for _, r := range b.Rows {
		where := p.placeOf(r)
		numbers := p.places[r.Length]
		for n := r.Lo; n < min(r.Hi, int64(len(numbers))); n++ {
			numbers[n] = max(numbers[n], where)
		}
	}
}

func (p *pass) placeOf(r ledger.Row) place {
	switch r.State {
	case ledger.StateReserved:
		return reserved
	case ledger.StateBatch:
		return ledgerBatch
	case ledger.StateShipping:
		return shipping
	default:
		return p.reason(r.Reason)
	}
}

func (p *pass) reason(reason string) place {
	i := slices.Index(p.reasons, reason)
	if i < 0 && len(p.reasons) == maxReasons {
		i = maxReasons - 1 // counts under the last reason; in practice there are only a few reasons
	}
	if i < 0 {
		i = len(p.reasons)
		p.reasons = append(p.reasons, reason)
	}
	return abandoned + place(i)
}

// findOverlaps finds the numbers that are in two rows of the ledger and could be handed out
// twice. An overlap of abandoned rows is harmless.
func (p *pass) findOverlaps(b ledger.Snapshot) {
	var last ledger.Row
	for _, r := range b.Rows { // by length and number
		if r.State == ledger.StateAbandoned {
			continue
		}
		if r.Length != last.Length {
			last = ledger.Row{}
		}
		for n := r.Lo; n < min(r.Hi, last.Hi, int64(len(p.places[r.Length]))); n++ {
			p.fault(FaultDuplicate, p.space.Code(r.Length, n))
		}
		if r.Hi > last.Hi {
			last = r
		}
	}
}

// at returns the place of a code, or nil if its number was not reserved when the pass began.
func (p *pass) at(code string) *place {
	length, n, err := p.space.Number(code)
	if err != nil || n >= int64(len(p.places[length])) {
		return nil
	}
	return &p.places[length][n]
}

// addPool records the place of every code that the shared pool has on record. An abandoned key
// stays abandoned, although the pool may still have it on record.
func (p *pass) addPool(found iter.Seq2[kgs.PoolEntry, error]) error {
	for f, err := range found {
		if err != nil {
			return err
		}
		at := p.at(f.Code)
		if at == nil {
			p.beyond = append(p.beyond, f.Code)
			continue
		}
		if at.waits() {
			p.fault(FaultDuplicate, f.Code)
		}
		where := pooled
		if f.InBatch {
			where = sharedBatch
		}
		*at = max(*at, where)
	}
	return nil
}

// addLinks records the place of every code that has a link.
func (p *pass) addLinks(links iter.Seq2[Linked, error]) error {
	for l, err := range links {
		if err != nil {
			return err
		}
		p.accounts.Links[l.Source]++
		where := linkOf(l.Source)
		at := p.at(l.Code)
		if where == clientLink && (at == nil || !at.leased()) {
			where = conflicted // the key comes from another ledger
		}
		if at == nil {
			if where != conflicted {
				p.beyond = append(p.beyond, l.Code)
			}
			continue
		}
		if where != conflicted && (*at == reserved || *at == pooled) {
			p.fault(FaultReused, l.Code)
		}
		*at = max(*at, where)
	}
	return nil
}

// linkOf returns the place of a number whose code has a link of the given source. If the source
// does not use keys of the ledger, the link conflicts with the number. A link of SourceKGS may
// have a key of this ledger or of another one.
func linkOf(source string) place {
	switch source {
	case kgs.SourcePool:
		return poolLink
	case kgs.SourceLedger:
		return ledgerLink
	case kgs.SourceKGS:
		return clientLink
	default:
		return conflicted
	}
}

// findForeign finds the keys whose numbers were not reserved at the end of the pass either.
func (p *pass) findForeign(after ledger.Snapshot) {
	for _, code := range p.beyond {
		length, n, err := p.space.Number(code)
		i := slices.IndexFunc(after.Spaces, func(s ledger.SpaceCounter) bool { return s.Length == length })
		if err != nil || i < 0 || n >= after.Spaces[i].Next {
			p.fault(FaultForeign, code)
		}
	}
}
