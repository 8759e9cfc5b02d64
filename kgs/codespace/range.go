package codespace

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// ErrNotContained means that a range to cut out is not in the given ranges, is empty, or
// overlaps another range to cut out.
var ErrNotContained = errors.New("a range is not contained in the others, or occurs twice")

// Range is the consecutive numbers [Lo, Hi) of codes of the given length.
type Range struct {
	Length int
	Lo, Hi int64
}

// Len returns how many numbers the range holds.
func (r Range) Len() int64 { return r.Hi - r.Lo }

// mustHold panics unless r is a range, possibly empty, of valid numbers for its code length.
func mustHold(r Range) {
	if size := Size(r.Length); r.Lo < 0 || r.Hi < r.Lo || r.Hi > size {
		panic(fmt.Sprintf("codespace: [%d, %d) is no range of %d-character codes: their numbers are [0, %d)",
			r.Lo, r.Hi, r.Length, size))
	}
}

// Without cuts parts out of ranges and returns what is left, sorted by length and number. It
// fails with ErrNotContained when a part is empty, is not in ranges, or overlaps another part.
func Without(ranges, parts []Range) (rest []Range, err error) {
	parts = slices.SortedFunc(slices.Values(parts), byNumber)
	for _, r := range Joined(ranges) {
		for len(parts) > 0 && parts[0].Length == r.Length && parts[0].Lo < r.Hi {
			part := parts[0]
			if part.Lo < r.Lo || part.Hi > r.Hi || part.Len() < 1 {
				return nil, fmt.Errorf("%w: %+v", ErrNotContained, part)
			}
			if part.Lo > r.Lo {
				rest = append(rest, Range{r.Length, r.Lo, part.Lo})
			}
			r.Lo, parts = part.Hi, parts[1:]
		}
		if r.Len() > 0 {
			rest = append(rest, r)
		}
	}
	if len(parts) > 0 {
		return nil, fmt.Errorf("%w: %+v", ErrNotContained, parts[0])
	}
	return rest, nil
}

// Joined returns ranges sorted by length and number, with adjacent ones joined.
func Joined(ranges []Range) (all []Range) {
	for _, r := range slices.SortedFunc(slices.Values(ranges), byNumber) {
		if n := len(all); n > 0 && all[n-1].Length == r.Length && all[n-1].Hi == r.Lo {
			all[n-1].Hi = r.Hi
			continue
		}
		all = append(all, r)
	}
	return all
}

func byNumber(a, b Range) int {
	return cmp.Or(cmp.Compare(a.Length, b.Length), cmp.Compare(a.Lo, b.Lo))
}

// Longest returns the n longest ranges, or all of them if there are at most n.
func Longest(ranges []Range, n int) []Range {
	if len(ranges) <= n {
		return ranges
	}
	return slices.SortedFunc(slices.Values(ranges), func(a, b Range) int { return cmp.Compare(b.Len(), a.Len()) })[:n]
}

// Count returns how many numbers ranges hold in total.
func Count(ranges []Range) (n int64) {
	for _, r := range ranges {
		n += r.Len()
	}
	return n
}
