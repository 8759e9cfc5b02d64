package api

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"
)

// linkWriter writes the links of a list.
type linkWriter interface {
	write(l *ownedLink) error
	flush() error
}

// jsonLines writes links as NDJSON: one JSON object per line.
type jsonLines struct{ *json.Encoder }

func newJSONLines(w io.Writer) jsonLines {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return jsonLines{enc}
}

func (w jsonLines) write(l *ownedLink) error { return w.Encode(l) }
func (jsonLines) flush() error               { return nil }

// csvLines writes links as CSV (RFC 4180). The first line has the names of the columns.
type csvLines struct{ *csv.Writer }

func newCSVLines(w io.Writer) (csvLines, error) {
	c := csvLines{csv.NewWriter(w)}
	err := c.Write([]string{
		"code", "short_url", "url", "created_at", "expires_at", "title", "tags", "owner", "editable", "version", "changed_at",
		"redirect", "forward", "deleted_at",
	})
	return c, err
}

func (w csvLines) write(l *ownedLink) error {
	return w.Write([]string{
		l.Code, l.ShortURL, l.URL, csvTime(l.CreatedAt), csvTime(l.ExpiresAt), l.Title, strings.Join(l.Tags, "|"), l.Owner,
		strconv.FormatBool(l.Editable), strconv.FormatInt(l.Version, 10), csvTime(l.ChangedAt),
		strconv.Itoa(l.Redirect), string(l.Forward), csvTime(l.DeletedAt),
	})
}

func (w csvLines) flush() error {
	w.Flush()
	return w.Error()
}

// csvTime returns a time in RFC 3339, or "" for the zero time.
func csvTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}
