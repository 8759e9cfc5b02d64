// Package transfer exports all links to a file, and imports links from files of this program and of other services.
//
// Vocabulary:
//
//   - A [Format] is the way in which a file describes links.
//   - A [Record] is one link in a file. It contains the name of the owner. The database contains the id of the owner instead.
//   - A [Line] is the result of reading one record: the record, or the reason why the record cannot be read.
//   - A refusal is the reason why a record is not imported. A refusal concerns one record. An error concerns the whole file
//     or the database.
//   - A part is a group of consecutive records. An import inserts a part in one transaction. An export reads the visits of a
//     part in one query.
//
// Invariants:
//
//   - Each record of a file is imported, is already in the database, or is refused with the number of its line.
//   - An import that ended early may be repeated. Afterwards the links and their visits are the same as after one complete
//     import, because the transaction that inserts a link also inserts its visits.
//   - The memory that an import or an export needs does not depend on the number of records or on their length.
//   - The order of an export depends only on the links. If an export is imported into an empty database, the next export
//     of this database equals the imported file.
package transfer

import (
	"bytes"
	"slices"
	"time"

	"keypool/shortener"
)

// Record is a link in a file. If the file does not contain a member, the member has its zero value, except that Version, Redirect
// and Forward have the values of newRecord. The JSON members and the columns of a CSV file have the names of the members in the
// HTTP API.
type Record struct {
	Code         string            `json:"code"`
	URL          string            `json:"url"`
	CreatedAt    time.Time         `json:"created_at,omitzero"`
	ExpiresAt    time.Time         `json:"expires_at,omitzero"`
	Title        string            `json:"title,omitzero"`
	Tags         []string          `json:"tags,omitempty"`
	Owner        string            `json:"owner,omitzero"` // name of a token
	Editable     bool              `json:"editable"`
	Version      int64             `json:"version"`
	ChangedAt    time.Time         `json:"changed_at,omitzero"`
	Redirect     int               `json:"redirect"`
	Forward      shortener.Forward `json:"forward"`
	DeletedAt    time.Time         `json:"deleted_at,omitzero"`
	FirstURL     string            `json:"first_url,omitzero"`      // the URL at the creation, if the URL was changed
	URLChangedAt time.Time         `json:"url_changed_at,omitzero"` // time of the last change of the URL
	Visits       Total             `json:"visits,omitzero"`
}

// Total contains the number of visits of a link.
type Total struct {
	Human int64 `json:"human"`
	Bot   int64 `json:"bot"`
}

// newRecord returns a record with the default values of the members that a file may omit.
func newRecord() Record {
	return Record{Version: 1, Redirect: shortener.DefaultRedirect, Forward: shortener.ForwardNone}
}

// recordOf returns the record of a link, without its visits.
func recordOf(l *shortener.Link, owners *Owners) Record {
	r := Record{
		Code: l.Code, URL: l.URL, CreatedAt: l.CreatedAt, ExpiresAt: l.ExpiresAt, DeletedAt: l.DeletedAt,
		Editable: l.Editable(), Version: l.Version(), Redirect: l.Redirect(), Forward: l.Forward(),
	}
	if d := l.Details; d != nil {
		r.Title, r.Tags, r.FirstURL, r.URLChangedAt = d.Title, d.Tags, d.FirstURL, d.URLChangedAt
		r.ChangedAt = d.ChangedAt.Truncate(time.Microsecond) // older releases stored nanoseconds of some deletions
		r.Owner = owners.name(d.Owner)
	}
	return r
}

// link returns the link that r describes. The link is not validated yet.
func (r *Record) link(owner int64) shortener.Link {
	return shortener.Link{
		Code: r.Code, URL: r.URL, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, DeletedAt: r.DeletedAt,
		Details: &shortener.Details{
			Owner: owner, Title: r.Title, Tags: r.Tags, Editable: r.Editable, Version: r.Version, ChangedAt: r.ChangedAt,
			Redirect: r.Redirect, Forward: r.Forward, FirstURL: r.FirstURL, URLChangedAt: r.URLChangedAt,
		},
	}
}

// date sets the creation time of a record that has none. If the record has times before the import, the creation time
// becomes the earliest of them. Otherwise it becomes the time of the import, which is the parameter now.
func (r *Record) date(now time.Time) {
	if !r.CreatedAt.IsZero() {
		return
	}
	r.CreatedAt = now
	for _, at := range []time.Time{r.ExpiresAt, r.ChangedAt, r.URLChangedAt, r.DeletedAt} {
		if !at.IsZero() && at.Before(r.CreatedAt) {
			r.CreatedAt = at
		}
	}
}

// check rejects zero values of Redirect and Forward. If a file omits these members, newRecord has set other values, so
// a zero value comes from the file. In a [shortener.Link], a zero value would mean the default.
func (r *Record) check() error {
	if r.Redirect == 0 {
		return &shortener.InvalidError{Field: "redirect", Reason: "must be 301, 302, 307 or 308"}
	}
	if r.Forward == "" {
		return &shortener.InvalidError{Field: "forward", Reason: `must be "none", "query" or "query+path"`}
	}
	return nil
}

// differences returns the names of the members, apart from the visits, that differ between two records.
func differences(a, b *Record) (names []string) {
	for _, member := range []struct {
		name  string
		equal bool
	}{
		{"url", a.URL == b.URL},
		{"created_at", a.CreatedAt.Equal(b.CreatedAt)},
		{"expires_at", a.ExpiresAt.Equal(b.ExpiresAt)},
		{"title", a.Title == b.Title},
		{"tags", slices.Equal(a.Tags, b.Tags)},
		{"owner", a.Owner == b.Owner},
		{"editable", a.Editable == b.Editable},
		{"version", a.Version == b.Version},
		{"changed_at", a.ChangedAt.Equal(b.ChangedAt)},
		{"redirect", a.Redirect == b.Redirect},
		{"forward", a.Forward == b.Forward},
		{"deleted_at", a.DeletedAt.Equal(b.DeletedAt)},
		{"first_url", a.FirstURL == b.FirstURL},
		{"url_changed_at", a.URLChangedAt.Equal(b.URLChangedAt)},
	} {
		if !member.equal {
			names = append(names, member.name)
		}
	}
	return names
}

// byteOrderMark returns the bytes with which some programs begin a text file in UTF-8.
func byteOrderMark() []byte { return []byte("\ufeff") }

// skipMark discards the byte order mark at the beginning of a file.
func skipMark(r peeker) {
	if mark := byteOrderMark(); bytes.Equal(peek(r, len(mark)), mark) {
		_, _ = r.Discard(len(mark)) // these bytes are in the buffer
	}
}

type peeker interface {
	Peek(n int) ([]byte, error)
	Discard(n int) (int, error)
}

// peek returns the next n bytes, or fewer at the end of the file. It ignores a read error, because a later read returns the
// error again.
func peek(r peeker, n int) []byte {
	b, _ := r.Peek(n)
	return b
}
