package transfer

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"keypool/shortener"
)

// Texts that describe the valid values of a field.
const (
	takesTime      = "must be a time in RFC 3339, such as 2026-01-02T15:04:05Z"
	takesPlainTime = "must be a time such as 2026-01-02 15:04:05, in UTC unless it has an offset such as +01"
	takesYears     = "must be a time in the years 1970 to 9999"
	takesCount     = "must be a whole number from 0 to 2^53"
)

// maxVisits is the maximum number of visits of a record. It ensures that the sum of the visits of many links fits in
// an int64.
const maxVisits = 1 << 53

var (
	errTime      = errors.New(takesTime)
	errPlainTime = errors.New(takesPlainTime)
	errYears     = errors.New(takesYears)
	errCount     = errors.New(takesCount)
	errNumber    = errors.New("must be a whole number")
	errSwitch    = errors.New("must be true or false")
)

// setTime returns a function that sets a time from a text in RFC 3339. The function ignores an empty text.
func setTime(at func(*Record) *time.Time) func(*Record, string) error {
	return func(r *Record, text string) error {
		if text == "" {
			return nil
		}
		t, ok := shortener.ParseTime(text)
		if !ok {
			return errTime
		}
		return set(at(r), t)
	}
}

// set sets a time of a record. It refuses the zero time, which is in the year 1, because a record with the zero time counts as a
// record without this time. The rules of the import check all other times.
func set(at *time.Time, t time.Time) error {
	if t.IsZero() {
		return errYears
	}
	*at = t
	return nil
}

// setPlainTime returns a function that sets a time from a text as databases and other services write it. A time
// without an offset is in UTC.
func setPlainTime(at func(*Record) *time.Time) func(*Record, string) error {
	return func(r *Record, text string) error {
		if isNull(text) {
			return nil
		}
		t, ok := parsePlainTime(strings.TrimSpace(text))
		if !ok {
			return errPlainTime
		}
		return set(at(r), t)
	}
}

// parsePlainTime parses a time in RFC 3339, in the variants of MySQL, PostgreSQL and SQLite, or in milliseconds since
// 1970. Some programs store milliseconds in SQLite.
func parsePlainTime(text string) (time.Time, bool) {
	if t, ok := shortener.ParseTime(text); ok {
		return t, true
	}
	for _, layout := range []string{
		"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05",
		"2006-01-02T15:04:05Z0700",
	} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	const digits = 13 // number of digits of the milliseconds of a time in the years 2001 to 2286
	n, err := strconv.ParseInt(text, 10, 64)
	return time.UnixMilli(n), err == nil && len(text) == digits && n > 0
}

// isNull reports whether a field of another service has no value. CSV has no representation of NULL, so exports of
// databases write one of these texts for NULL.
func isNull(text string) bool { return text == "" || text == "NULL" || text == `\N` }

// setText returns a function that sets a text. It sets "" if the field has no value.
func setText(member func(*Record) *string) func(*Record, string) error {
	return func(r *Record, text string) error {
		if isNull(text) {
			text = ""
		}
		*member(r) = text
		return nil
	}
}

// setExact returns a function that sets a text without a change.
func setExact(member func(*Record) *string) func(*Record, string) error {
	return func(r *Record, text string) error {
		*member(r) = text
		return nil
	}
}

// setCount returns a function that sets a number of visits.
func setCount(member func(*Record) *int64) func(*Record, string) error {
	return func(r *Record, text string) error {
		if isNull(text) {
			return nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || !isCount(n) {
			return errCount
		}
		*member(r) = n
		return nil
	}
}

func isCount(n int64) bool { return n >= 0 && n <= maxVisits }

// parseSwitch parses a boolean value, such as true, t or 1. A field without a value is false.
func parseSwitch(text string) (bool, error) {
	if isNull(text) {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, errSwitch
	}
	return on, nil
}

// setTags sets tags that are separated by |.
func setTags(r *Record, text string) error {
	if text != "" {
		r.Tags = strings.Split(text, "|")
	}
	return nil
}

// These functions return the members of a record, for setTime, setPlainTime, setText, setExact and setCount.
func code(r *Record) *string            { return &r.Code }
func url(r *Record) *string             { return &r.URL }
func title(r *Record) *string           { return &r.Title }
func owner(r *Record) *string           { return &r.Owner }
func firstURL(r *Record) *string        { return &r.FirstURL }
func createdAt(r *Record) *time.Time    { return &r.CreatedAt }
func expiresAt(r *Record) *time.Time    { return &r.ExpiresAt }
func changedAt(r *Record) *time.Time    { return &r.ChangedAt }
func urlChangedAt(r *Record) *time.Time { return &r.URLChangedAt }
func deletedAt(r *Record) *time.Time    { return &r.DeletedAt }
func humans(r *Record) *int64           { return &r.Visits.Human }
func bots(r *Record) *int64             { return &r.Visits.Bot }
