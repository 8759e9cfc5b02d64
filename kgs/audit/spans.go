package audit

import (
	"cmp"
	"iter"
	"slices"

	"keypool/kgs/codespace"
)

// span stands for the consecutive ranks [lo, hi). [codespace.Space.Rank] defines the rank of a code.
//
// A slice of spans is ordered if the spans are sorted and disjoint. An ordered slice is a set of
// ranks. Its memory depends on the number of spans and not on the number of ranks.
type span struct{ lo, hi int64 }

// spanOf returns the ranks of the numbers [lo, hi) of one code length.
func spanOf(length int, lo, hi int64) span {
	first := int64(0)
	for shorter := codespace.MinLength; shorter < length; shorter++ {
		first += codespace.Size(shorter)
	}
	return span{first + lo, first + hi}
}

func (s span) len() int64 { return s.hi - s.lo }

// size returns the number of ranks in an ordered slice.
func size(spans []span) (n int64) {
	for _, s := range spans {
		n += s.len()
	}
	return n
}

// push appends a span whose lo is not below the lo of the last span. It joins spans that touch or
// overlap.
func push(all []span, s span) []span {
	if n := len(all); n > 0 && all[n-1].hi >= s.lo {
		all[n-1].hi = max(all[n-1].hi, s.hi)
		return all
	}
	return append(all, s)
}

// joined returns two ordered slices. The slice all has the ranks that are in at least one of the spans. The slice again
// has the ranks that are in two spans or more. joined overwrites spans.
func joined(spans []span) (all, again []span) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	all = spans[:0]
	for _, s := range spans {
		if n := len(all); n > 0 && s.lo < all[n-1].hi {
			again = push(again, span{s.lo, min(s.hi, all[n-1].hi)})
		}
		all = push(all, s)
	}
	return all, again
}

// union returns the ranks that are in any of the sets.
func union(sets ...[]span) []span {
	all, _ := joined(slices.Concat(sets...))
	return all
}

// overlaps yields the overlaps of the spans of two ordered slices in ascending order. With each overlap, it yields the
// index of the overlapping span in the slice a.
func overlaps(a, b []span) iter.Seq2[int, span] {
	return func(yield func(int, span) bool) {
		for i, j := 0, 0; i < len(a) && j < len(b); {
			s := span{max(a[i].lo, b[j].lo), min(a[i].hi, b[j].hi)}
			if s.lo < s.hi && !yield(i, s) {
				return
			}
			if a[i].hi < b[j].hi {
				i++
			} else {
				j++
			}
		}
	}
}

// both returns the ranks that are in the set a and in the set b. Both slices must be ordered.
func both(a, b []span) (all []span) {
	for _, s := range overlaps(a, b) {
		all = append(all, s)
	}
	return all
}

// without returns the ranks that are in the set a and not in the set b. Both slices must be ordered.
func without(a, b []span) (rest []span) {
	for _, s := range a {
		for len(b) > 0 && b[0].lo < s.hi {
			if s.lo < b[0].lo {
				rest = append(rest, span{s.lo, b[0].lo})
			}
			s.lo = max(s.lo, b[0].hi)
			if s.lo >= s.hi {
				break // b[0] may also overlap the next span of a
			}
			b = b[1:]
		}
		if s.lo < s.hi {
			rest = append(rest, s)
		}
	}
	return rest
}

// minJoin is the number of spans below which a rankSet does not join its spans.
const minJoin = 1024

// rankSet collects ranks in any order. It joins its spans each time their number has doubled. If
// the ranks arrive in order, its memory depends on the number of gaps. In a random order, which is
// the worst case, it needs up to 40 bytes for each rank.
type rankSet struct {
	spans  []span // ordered by the last join, followed by the spans that arrived later
	again  []span // ranks that were added more than once, as ordered spans; complete only after join
	joinAt int    // number of spans at which the spans are joined
}

func (s *rankSet) add(rank int64) {
	if n := len(s.spans); n > 0 && s.spans[n-1].hi == rank {
		s.spans[n-1].hi++
		return
	}
	if len(s.spans) >= max(minJoin, s.joinAt) {
		s.joinAt = 2 * len(s.join())
	}
	s.spans = append(s.spans, span{rank, rank + 1})
}

// join orders the spans and returns them.
func (s *rankSet) join() []span {
	all, again := joined(s.spans)
	s.spans = all
	if len(again) > 0 {
		s.again = union(s.again, again)
	}
	return all
}
