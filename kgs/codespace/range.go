package codespace

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// ErrNotContained says that a range is not in the ranges that it is to be cut out of, or
// overlaps another one that is cut out too.
var ErrNotContained = errors.New("a range lies outside of the others, or is there twice")

// Range is the consecutive numbers [Lo, Hi) in the space of codes of Length.
type Range struct {
	Length int
	Lo, Hi int64
}

// Len is how many numbers the range holds.
func (r Range) Len() int64 { return r.Hi - r.Lo }

// mustHold panics unless r is a range, possibly empty, of numbers that its space has.
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

// Joined sorts ranges by length and number, and joins those that touch.
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

// Longest is the n longest of ranges, or all of them if there are not more.
func Longest(ranges []Range, n int) []Range {
	if len(ranges) <= n {
		return ranges
	}
	return slices.SortedFunc(slices.Values(ranges), func(a, b Range) int { return cmp.Compare(b.Len(), a.Len()) })[:n]
}

// Count is how many numbers ranges hold.
func Count(ranges []Range) (n int64) {
	for _, r := range ranges {
		n += r.Len()
	}
	return n
}
