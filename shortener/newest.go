package shortener

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// ListPosition is a position in a list of links. The list is sorted by the creation time of the links, from the newest
// to the oldest. Of the links that were created in the same microsecond, the links with a rank come first, from
// the highest rank to the lowest. The links without a rank follow, from the last code to the first.
type ListPosition struct {
	At   time.Time
	Rank int64  // links with the creation time At and a lower rank follow the position
	Code string // links with the creation time At, no rank and a lower code follow the position
}

// MergeNewest implements [Store.Newest] for a store that can sort the links of each table by their creation time.
// The functions ranked and unranked read the links of the two tables. Each function returns the links that follow
// a position, up to the given number.
func MergeNewest(o Order, s Selection, ranked, unranked func(ListPosition, int) ([]Link, error)) (links []Link, next string, err error) {
	position, err := before(o, s.From)
	if err != nil {
		return nil, "", err
	}
	a, err := ranked(position, s.Limit+1)
	if err != nil {
		return nil, "", err
	}
	b, err := unranked(position, s.Limit+1)
	if err != nil {
		return nil, "", err
	}
	links = make([]Link, 0, min(s.Limit, len(a)+len(b)))
	for len(links) < cap(links) {
		if len(b) == 0 || len(a) > 0 && !a[0].CreatedAt.Before(b[0].CreatedAt) {
			links, a = append(links, a[0]), a[1:]
		} else {
			links, b = append(links, b[0]), b[1:]
		}
	}
	if len(a)+len(b) > 0 {
		last := links[len(links)-1]
		next = strconv.FormatInt(last.CreatedAt.UnixMicro(), 36) + "." + last.Code
	}
	return links, next, nil
}

const afterRanks, afterCodes = math.MaxInt64, "~" // a tilde is greater than every character of a code

// lastMoment returns the latest creation time that a link can have. [ImportRules] refuse years after 9999.
func lastMoment() time.Time {
	return time.Date(9999, time.December, 31, 23, 59, 59, 999_999_000, time.UTC)
}

// before parses the text of a position. The text contains the creation time and the code of the last link before
// the position.
func before(o Order, text string) (ListPosition, error) {
	if text == "" {
		return ListPosition{lastMoment(), afterRanks, afterCodes}, nil
	}
	micros, code, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(micros, 36, 64)
	if err != nil || n < 0 || n > 1<<58 || !IsCode(code) {
		return ListPosition{}, ErrPosition
	}
	at := time.UnixMicro(n).UTC()
	if rank, ok := o.Rank(code); ok {
		return ListPosition{at, rank, afterCodes}, nil
	}
	return ListPosition{at, -1, code}, nil
}
