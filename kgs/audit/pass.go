package audit

import (
	"iter"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
)

// linkKind is what a link shows about the number of its code.
type linkKind int

const (
	conflict   linkKind = iota // the code of the link is not a key of this ledger
	clientLink                 // the code is a key of SourceKGS
	ledgerLink                 // the code is a key of SourceLedger
	poolLink                   // the code is a key of SourcePool
	linkKinds                  // the number of kinds
)

// linkOf returns the kind of a link of the given source. If the source does not use keys of the
// ledger, the kind is conflict. A link of SourceKGS may have a key of this ledger or of another
// ledger.
func linkOf(source string) linkKind {
	switch source {
	case kgs.SourcePool:
		return poolLink
	case kgs.SourceLedger:
		return ledgerLink
	case kgs.SourceKGS:
		return clientLink
	default:
		return conflict
	}
}

// pass is one reading of all evidence. It merges two streams in the order of the ranks: the
// segments, which divide computes from the ledger and the pool, and the links.
type pass struct {
	space            *codespace.Space
	order            Order
	next             [codespace.MaxLength + 1]int64 // counters of the ledger when the pass began; the index is the length
	sections         []section
	reserved         []span   // reserved[i] is the ranks of sections[i]
	reasons          []string // reasons of abandonment, in the order of their first use
	segments         []segment
	at               int     // index of the segment that contained the last link
	linked           rankSet // linked numbers of the open segments
	reused           rankSet
	unreservedKeys   rankSet // keys that are in the pool or linked, although their numbers were not reserved when the pass began
	codesWithoutRank codesWithoutRank
	misplaced        codes      // codes of misplaced rows
	previous         faultRanks // faults of the previous pass; nil in the first pass
	found            faultRanks
	accounts         Accounts
}

func newPass(e Evidence, b ledger.Snapshot, previous faultRanks) *pass {
	p := &pass{
		space: e.Space, order: e.Order, sections: sections(b), previous: previous, found: faultRanks{},
		accounts: Accounts{Abandoned: map[string]int64{}, Links: map[string]int64{}, Epochs: []EpochAccounts{}},
	}
	for _, s := range b.Spaces {
		p.next[s.Length] = s.Next
	}
	for _, s := range p.sections {
		p.reserved = append(p.reserved, s.span)
	}
	return p
}

// poolRanks holds the ranks of the codes that the shared pool has on record.
type poolRanks struct{ waiting, inBatch rankSet }

// readPool adds the codes that the shared pool has on record. The codes arrive in any order.
func (p *pass) readPool(pool *poolRanks, found iter.Seq2[kgs.PoolEntry, error]) error {
	for f, err := range found {
		if err != nil {
			return err
		}
		rank, ok := p.space.Rank(f.Code)
		switch {
		case !ok:
			p.codesWithoutRank.addPooled(f.Code)
		case f.InBatch:
			pool.inBatch.add(rank)
		default:
			pool.waiting.add(rank)
		}
	}
	return nil
}

// addLinks counts the links. It does not allocate memory for links that arrive in the order of
// their ranks without gaps.
func (p *pass) addLinks(links iter.Seq2[Linked, error]) error {
	for l, err := range links {
		if err != nil {
			return err
		}
		rank, ok := p.space.Rank(l.Code)
		if p.isMisplaced(l, rank, ok) {
			p.misplaced.add(l.Code)
			continue
		}
		p.accounts.Links[l.Source]++
		p.addLink(l.Code, rank, ok, linkOf(l.Source))
	}
	return nil
}

// isMisplaced reports whether a search for the code of l in the store would miss the row of l. If ok is true, rank is the
// rank of the code in the code space.
func (p *pass) isMisplaced(l Linked, rank int64, ok bool) bool {
	if p.order != Order(p.space) {
		rank, ok = p.order.Rank(l.Code)
	}
	if !ok {
		rank = -1
	}
	return l.Rank != rank
}

func (p *pass) addLink(code string, rank int64, ok bool, kind linkKind) {
	var at *segment
	if ok {
		at = p.segmentAt(rank)
	}
	if kind == clientLink && (at == nil || !at.place.leased()) {
		kind = conflict // the key comes from another ledger
	}
	switch {
	case at != nil:
		p.addTo(at, rank, kind)
	case kind == conflict: // nothing to count: the code is not a key of this ledger, and its number is not reserved
	case ok:
		p.unreservedKeys.add(rank)
	default:
		p.codesWithoutRank.add(code)
	}
}

func (p *pass) addTo(s *segment, rank int64, kind linkKind) {
	s.links[kind]++
	if s.open {
		p.linked.add(rank)
	}
	if kind != conflict && (s.place == reserved || s.place == pooled) {
		p.reused.add(rank)
	}
}

// close finds the remaining kinds of faults and counts the numbers. The parameter after is the state of the ledger at
// the end of the pass.
func (p *pass) close(after ledger.Snapshot) error {
	p.keepConfirmed(FaultReused, p.reused.join())
	p.findForeign(after)
	return p.sum(after.Rows)
}

// findForeign finds the keys whose numbers were reserved neither at the beginning nor at the end of the pass.
func (p *pass) findForeign(after ledger.Snapshot) {
	var reserved []span
	for _, s := range after.Spaces {
		reserved = append(reserved, spanOf(s.Length, 0, s.Next))
	}
	p.keepConfirmed(FaultForeign, without(p.unreservedKeys.join(), reserved))
}
