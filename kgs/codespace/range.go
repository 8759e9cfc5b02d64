package codespace

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// errNotContained means that [Without] cannot remove a part.
var errNotContained = errors.New("a range is empty, is not in the given ranges, or overlaps another range")

// Range stands for the consecutive numbers [Lo, Hi) of one code length.
type Range struct {
	Length int
	Lo, Hi int64
}

// Len returns how many numbers the range has.
func (r Range) Len() int64 { return r.Hi - r.Lo }

// mustHold panics if r is not a range of valid numbers of its code length. An empty range is
// valid.
func mustHold(r Range) {
	if size := Size(r.Length); r.Lo < 0 || r.Hi < r.Lo || r.Hi > size {
		panic(fmt.Sprintf("codespace: [%d, %d) is not a range of numbers of %d-character codes, which are in [0, %d)",
			r.Lo, r.Hi, r.Length, size))
	}
}

// Without removes parts from ranges. It returns the remaining ranges, sorted by length and
// number. It fails if a part is empty, is not in ranges, or overlaps another part.
func Without(ranges, parts []Range) (rest []Range, err error) {
	parts = slices.SortedFunc(slices.Values(parts), byNumber)
	for _, r := range Joined(ranges) {
		for len(parts) > 0 && parts[0].Length == r.Length && parts[0].Lo < r.Hi {
			part := parts[0]
			if part.Lo < r.Lo || part.Hi > r.Hi || part.Len() < 1 {
				return nil, fmt.Errorf("%w: %+v", errNotContained, part)
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
		return nil, fmt.Errorf("%w: %+v", errNotContained, parts[0])
	}
	return rest, nil
}

// Joined returns the ranges sorted by length and number. It joins adjacent ranges.
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

// Longest returns the n longest ranges. It returns all ranges if there are at most n.
func Longest(ranges []Range, n int) []Range {
	if len(ranges) <= n {
		return ranges
	}
	return slices.SortedFunc(slices.Values(ranges), func(a, b Range) int { return cmp.Compare(b.Len(), a.Len()) })[:n]
}

// Count returns how many numbers all ranges have in total.
func Count(ranges []Range) (n int64) {
	for _, r := range ranges {
		n += r.Len()
	}
	return n
}
