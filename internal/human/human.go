// Package human formats durations and rates for people. The dashboard's format.js formats
// durations by the same rules; a test of web/admin compares the two.
package human

import (
	"math"
	"strconv"

	"github.com/dustin/go-humanize"
)

const year = 365 * 86400 // seconds

// units returns the units of a duration, largest first, with the symbols of the SI Brochure.
func units() []unit {
	return []unit{{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}}
}

type unit struct {
	name string
	size int64 // seconds
}

// Duration formats a number of seconds in its two largest units, such as "13 min 32 s",
// "5 h 30 min" and "12 d 12 h". A duration below one minute has one decimal, which is
// omitted if it is 0, such as "0.4 s" and "43 s". A duration of two years or more is a whole
// number of years, such as "31,709 years".
func Duration(seconds float64) string {
	if seconds < 0 {
		return "-" + Duration(-seconds)
	}
	if tenths := math.Round(10 * seconds); tenths < 600 {
		return strconv.FormatFloat(tenths/10, 'f', -1, 64) + " s"
	}
	if seconds >= 2*year {
		return humanize.Comma(int64(seconds/year)) + " years"
	}
	left := int64(math.Round(seconds))
	all := units()
	first := 0
	for all[first].size > left {
		first++
	}
	text := humanize.Comma(left/all[first].size) + " " + all[first].name
	if first+1 == len(all) {
		return text
	}
	if n := left % all[first].size / all[first+1].size; n > 0 {
		text += " " + humanize.Comma(n) + " " + all[first+1].name
	}
	return text
}

// PerSecond formats a rate, such as "0/s", "9.5/s" and "1,234/s".
func PerSecond(rate float64) string {
	if tenths := math.Round(10 * rate); tenths < 100 {
		return strconv.FormatFloat(tenths/10, 'f', -1, 64) + "/s"
	}
	return humanize.Comma(int64(math.Round(rate))) + "/s"
}
