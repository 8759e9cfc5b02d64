package shortener

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxYears is how far in the future an expiry may lie.
const maxYears = 100

// parseExpiry returns the expiry of a link created at now. It is given as at (RFC 3339)
// or in (a decimal number of seconds, or a Go duration); without both the result is the
// zero time. The expiry is truncated to the microsecond and must lie after now.
func parseExpiry(at, in *string, now time.Time) (time.Time, error) {
	switch {
	case at != nil && in != nil:
		return time.Time{}, &InvalidError{Field: "expires_in", Reason: "must not be given together with expires_at"}
	case at != nil:
		t, ok := parseTime(*at)
		if !ok {
			return time.Time{}, &InvalidError{Field: "expires_at", Reason: "must be an RFC 3339 time such as 2030-12-31T23:59:59Z"}
		}
		return boundExpiry("expires_at", t, now)
	case in != nil:
		d, ok := parseDuration(*in)
		if !ok {
			return time.Time{}, &InvalidError{Field: "expires_in", Reason: `must be a number of seconds or a duration such as "36h", up to 100 years`}
		}
		return boundExpiry("expires_in", now.Add(d), now)
	}
	return time.Time{}, nil
}

func boundExpiry(field string, t, now time.Time) (time.Time, error) {
	t = stamp(t)
	if !t.After(now) {
		return time.Time{}, &InvalidError{Field: field, Reason: "must lie in the future"}
	}
	if t.After(now.AddDate(maxYears, 0, 0)) {
		return time.Time{}, &InvalidError{Field: field, Reason: "must lie within the next 100 years"}
	}
	return t, nil
}

// stamp converts a time to the form that every engine keeps: UTC, whole microseconds.
func stamp(t time.Time) time.Time {
	return t.UTC().Truncate(time.Microsecond)
}

// rfc3339 is the form of a time in RFC 3339, section 5.6. Package time alone also accepts
// an hour of one digit, a comma before the fraction and a zone of 24 hours. It does
// reject what fits this form and is not a time, such as 30 February.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):\d\d)$`)

func parseTime(s string) (time.Time, bool) {
	if !rfc3339.MatchString(s) {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, strings.ToUpper(s))
	return t, err == nil
}

// parseDuration parses a decimal number of seconds or a Go duration. A number beyond the
// range of Duration becomes its maximum or minimum; boundExpiry rejects both.
func parseDuration(s string) (time.Duration, bool) {
	// ParseFloat also accepts "inf", "nan" and hexadecimal numbers.
	if strings.Trim(s, "+-.0123456789eE") != "" {
		d, err := time.ParseDuration(s)
		return d, err == nil
	}
	seconds, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(seconds, 0) {
		return 0, false
	}
	const limit = float64(math.MaxInt64 / int64(time.Second))
	if math.Abs(seconds) > limit {
		return time.Duration(math.Copysign(1, seconds)) * math.MaxInt64, true
	}
	return time.Duration(math.Round(seconds * float64(time.Second))), true
}
