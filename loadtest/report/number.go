package report

import (
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// nothing stands where there is no figure.
const nothing = "–"

// number shows a figure with four digits that count, or whole from a thousand on, with
// commas.
func number(v float64) string {
	size := math.Abs(v)
	switch {
	case !finite(v):
		return nothing
	case size >= 1e15, size < 1e-6 && size > 0:
		return strconv.FormatFloat(v, 'g', 4, 64)
	case size >= 1000:
		return humanize.Commaf(math.Round(v))
	}
	return humanize.Commaf(rounded(v, 4))
}

// rounded keeps the digits of v that count.
func rounded(v float64, digits int) float64 {
	// What was just formatted can be parsed.
	short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	return short
}

// quantity is a number with its unit.
func quantity(v *float64, unit string) string {
	if v == nil || !finite(*v) {
		return nothing
	}
	return strings.TrimSpace(number(*v) + " " + unit)
}

// ratio of what was observed to what was predicted.
func ratio(observed, predicted *float64) string {
	if observed == nil || predicted == nil {
		return nothing
	}
	v := *observed / *predicted
	if !finite(v) {
		return nothing
	}
	if math.Abs(v) >= 10 {
		return number(math.Round(v))
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// count puts a number before a word: 1 claim, 2 claims.
func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return humanize.Comma(int64(n)) + " " + word + "s"
}
