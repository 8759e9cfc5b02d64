package audit

import (
	"cmp"
	"slices"
	"sort"

	"keypool/kgs/ledger"
)

// place is where the ledger or the pool has a number. If a number is in two places, the greater
// place counts, because keys usually move from smaller to greater places. A link takes precedence over
// every place.
type place int

const (
	nowhere     place = iota
	shipping          // the number is on its way to the shared pool
	reserved          // the number is reserved for the pool in the memory of a process, or it is reserved and has no holder
	pooled            // the number is in the shared pool
	ledgerBatch       // the number is in a batch that the ledger has on record
	sharedBatch       // the number is in a batch that the shared pool has on record
	abandoned         // abandoned+i means that the number is abandoned for the reason pass.reasons[i]
)

// leased reports whether a client of this ledger may have the number, from an open lease or from
// a lease that has ended.
func (w place) leased() bool { return w == ledgerBatch || w >= abandoned }

// placeOf returns the place of the numbers of a row.
func (p *pass) placeOf(r ledger.Row) place {
	switch r.State {
	case ledger.StateReserved:
		return reserved
	case ledger.StateBatch:
		return ledgerBatch
	case ledger.StateShipping:
		return shipping
	}
	i := slices.Index(p.reasons, r.Reason)
	if i < 0 {
		i = len(p.reasons)
		p.reasons = append(p.reasons, r.Reason)
	}
	return abandoned + place(i)
}

// cover holds the set of ranks in each place, as ordered spans. The place is the index.
type cover [][]span

// coverOf returns the ranks of the rows by place. twice has the ranks that are in two rows from which they
// could be handed out. An overlap with an abandoned row does not count, because an abandoned number is never
// handed out. coverOf leaves out numbers that were not reserved when the pass began.
func (p *pass) coverOf(rows []ledger.Row) (c cover, twice []span) {
	c = make(cover, abandoned)
	var live []span
	for _, r := range rows {
		s := spanOf(r.Length, max(r.Lo, 0), min(r.Hi, p.next[r.Length]))
		if s.len() <= 0 {
			continue
		}
		w := p.placeOf(r)
		for int(w) >= len(c) {
			c = append(c, nil) //nolint:makezero // the first places are always there
		}
		c[w] = append(c[w], s)
		if w < abandoned {
			live = append(live, s)
		}
	}
	for w := range c {
		c[w], _ = joined(c[w])
	}
	_, twice = joined(live)
	return c, twice
}

// separate leaves each rank only in the greatest of its places. It returns the ranks of all
// places.
func (c cover) separate() (all []span) {
	for w, spans := range slices.Backward(c) {
		c[w] = without(spans, all)
		all = union(all, spans)
	}
	return all
}

// segment stands for consecutive reserved numbers that are in the same section (see sum.go) and have the same place.
type segment struct {
	span
	place   place
	section int              // index of the section in pass.sections
	open    bool             // true if the numbers are nowhere and their epoch is not over; sumGaps examines the numbers without a link
	links   [linkKinds]int64 // number of links by kind
}

// linked returns the number of links in the segment.
func (s *segment) linked() (n int64) {
	for _, links := range s.links {
		n += links
	}
	return n
}

// divide divides all reserved numbers into segments. The rows and the pool give the places of
// the numbers. divide also finds the numbers that wait in two places, and the numbers in the
// pool that were not reserved when the pass began.
func (p *pass) divide(rows []ledger.Row, pool *poolRanks) {
	c, twice := p.coverOf(rows)
	c[pooled], c[sharedBatch] = pool.waiting.join(), pool.inBatch.join()
	inPool, again := joined(slices.Concat(c[pooled], c[sharedBatch]))
	p.unreservedKeys.spans = without(inPool, p.reserved)

	// An abandoned key stays abandoned, even if the pool still has the key on record.
	again = union(again, pool.waiting.again, pool.inBatch.again, both(inPool, c[reserved]), both(inPool, c[ledgerBatch]))
	again = without(again, union(c[abandoned:]...))
	p.keepConfirmed(FaultDuplicate, both(union(twice, again), p.reserved))

	c[nowhere] = without(p.reserved, c.separate())
	for w, spans := range c {
		for i, s := range overlaps(p.reserved, spans) {
			open := place(w) == nowhere && !p.sections[i].over
			p.segments = append(p.segments, segment{span: s, place: place(w), section: i, open: open})
		}
	}
	slices.SortFunc(p.segments, func(a, b segment) int { return cmp.Compare(a.lo, b.lo) })
}

// segmentAt returns the segment of a rank, or nil if the number was not reserved when the pass
// began. It is fastest if the ranks ascend from call to call.
func (p *pass) segmentAt(rank int64) *segment {
	for i := p.at; i < min(p.at+2, len(p.segments)); i++ {
		if s := &p.segments[i]; s.lo <= rank && rank < s.hi {
			p.at = i
			return s
		}
	}
	i := sort.Search(len(p.segments), func(i int) bool { return rank < p.segments[i].hi })
	if i == len(p.segments) || rank < p.segments[i].lo {
		return nil
	}
	p.at = i
	return &p.segments[i]
}
