package report

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"keypool/internal/human"
)

// dash stands for a missing figure.
const dash = "–"

// Number formats a figure with up to four significant digits. It rounds a figure of at least 1,000 to a whole number,
// and shows all digits of this number, with commas. A figure from 1e15 on, or below 1e-6, has an exponent. NaN and
// infinities are a dash.
func Number(v float64) string {
	size := math.Abs(v)
	switch {
	case !finite(v):
		return dash
	case size >= 1e15, size < 1e-6 && size > 0:
		return strconv.FormatFloat(v, 'g', 4, 64)
	case size >= 1000:
		return humanize.Commaf(math.Round(v))
	}
	return humanize.Commaf(rounded(v, 4))
}

// Quantity formats a number with its unit, such as "4.214 ms".
func Quantity(v float64, unit string) string {
	if !finite(v) {
		return dash
	}
	return strings.TrimSpace(Number(v) + " " + unit)
}

// Duration formats a duration below one second with three significant digits, such as "51 ns" and
// "4.21 ms". It formats a longer duration like [human.Duration].
func Duration(d time.Duration) string {
	switch size := d.Abs(); {
	case size >= time.Second, d == 0:
		return human.Duration(d.Seconds())
	case size >= time.Millisecond:
		return Quantity(rounded(d.Seconds()*1e3, 3), "ms")
	case size >= time.Microsecond:
		return Quantity(rounded(d.Seconds()*1e6, 3), "µs")
	}
	return Quantity(float64(d), "ns")
}

// took formats the duration of a run or an experiment.
func took(seconds float64) string { return Duration(time.Duration(seconds * float64(time.Second))) }

// quantity formats the figure v of a claim.
func quantity(v *float64, unit string) string {
	if v == nil {
		return dash
	}
	return Quantity(*v, unit)
}

// ratio formats the quotient of observed and predicted.
func ratio(observed, predicted *float64) string {
	if observed == nil || predicted == nil || !finite(*observed / *predicted) {
		return dash
	}
	v := *observed / *predicted
	if math.Abs(v) >= 10 {
		return Number(math.Round(v))
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// rounded rounds v to a number of significant digits.
func rounded(v float64, digits int) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return v // the rounded number would be too large for a float64
	}
	return short
}

// count formats a number with a noun, such as "1 claim" and "2 claims".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return humanize.Comma(int64(n)) + " " + noun
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
