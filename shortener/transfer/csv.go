package transfer

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"keypool/shortener"
)

// csvTable returns the columns of an export in the format CSV, in their order.
func csvTable() *table {
	return &table{strict: true, columns: []column{
		{name: "code", required: true, set: setExact(code)},
		{name: "url", required: true, set: setExact(url)},
		{name: "created_at", set: setTime(createdAt)},
		{name: "expires_at", set: setTime(expiresAt)},
		{name: "title", set: setExact(title)},
		{name: "tags", set: setTags},
		{name: "owner", set: setExact(owner)},
		{name: "editable", set: func(r *Record, text string) (err error) {
			r.Editable, err = parseSwitch(text)
			return err
		}},
		{name: "version", set: func(r *Record, text string) (err error) {
			r.Version, err = parseNumber(text, r.Version)
			return err
		}},
		{name: "changed_at", set: setTime(changedAt)},
		{name: "redirect", set: func(r *Record, text string) error {
			n, err := parseNumber(text, int64(r.Redirect))
			r.Redirect = int(n)
			return err
		}},
		{name: "forward", set: func(r *Record, text string) error {
			if text != "" {
				r.Forward = shortener.Forward(text)
			}
			return nil
		}},
		{name: "deleted_at", set: setTime(deletedAt)},
		{name: "first_url", set: setExact(firstURL)},
		{name: "url_changed_at", set: setTime(urlChangedAt)},
		{name: "human_visits", set: setCount(humans)},
		{name: "bot_visits", set: setCount(bots)},
	}}
}

// parseNumber parses a number. An empty text stands for the default.
func parseNumber(text string, byDefault int64) (int64, error) {
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, errNumber
	}
	return n, nil
}

// csvWriter writes an export as CSV.
type csvWriter struct{ *csv.Writer }

// newCSVWriter returns a writer of an export, and writes the first line, with the names
// of the columns.
func newCSVWriter(w io.Writer) (csvWriter, error) {
	c := csvWriter{csv.NewWriter(w)}
	var names []string
	for _, column := range csvTable().columns {
		names = append(names, column.name)
	}
	err := c.Write(names)
	return c, err
}

func (c csvWriter) write(r *Record) error {
	return c.Write([]string{
		r.Code, r.URL, timeText(r.CreatedAt), timeText(r.ExpiresAt), r.Title, strings.Join(r.Tags, "|"), r.Owner,
		strconv.FormatBool(r.Editable), strconv.FormatInt(r.Version, 10), timeText(r.ChangedAt), strconv.Itoa(r.Redirect), string(r.Forward),
		timeText(r.DeletedAt), r.FirstURL, timeText(r.URLChangedAt), countText(r.Visits.Human), countText(r.Visits.Bot),
	})
}

func (c csvWriter) flush() error {
	c.Flush()
	return c.Error()
}

// timeText returns a time in RFC 3339, or "" for the zero time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

// countText returns a number, or "" for 0.
func countText(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
