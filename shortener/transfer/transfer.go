// Package transfer exports all links to a file, and imports links from files of this program and of other services.
//
// Vocabulary:
//
//   - A [Format] is how a file describes links.
//   - A [Record] is one link in a file. It names the owner, where the database has the id of a token.
//   - A [Line] is the result of reading one record: the record, or the reason why it cannot be read.
//   - A refusal is the reason why a record is not imported. It is about one record. An error is about the
//     whole file or about the database.
//   - A part is consecutive records that an import inserts in one transaction, or whose visits an export reads
//     in one query.
//
// Invariants:
//
//   - Each record of a file is imported, is in the database already, or is refused with the number of its line.
//   - An import that ended early, or was killed, may be repeated. The links are then the same as after one import.
//     So are their visits of the past, because a transaction inserts both.
//   - The memory that an import or an export needs does not depend on the number of records or on their length.
//   - The order of an export depends only on the links. The export of imported links equals the file, if the file is an export.
package transfer

import (
	"bytes"
	"slices"
	"time"

	"keypool/shortener"
)

// Record is a link in a file. A member with its zero value is absent. The JSON members and the columns of a CSV file have the
// names of the members in the HTTP API.
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
	FirstURL     string            `json:"first_url,omitzero"`      // the URL as created, if it was changed
	URLChangedAt time.Time         `json:"url_changed_at,omitzero"` // time of the last change of the URL
	Visits       Total             `json:"visits,omitzero"`
}

// Total is how often a link was followed.
type Total struct {
	Human int64 `json:"human"`
	Bot   int64 `json:"bot"`
}

// newRecord returns a record with the defaults of the members that a file need not have.
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

// link returns the link that r describes, before its check.
func (r *Record) link(owner int64) shortener.Link {
	return shortener.Link{
		Code: r.Code, URL: r.URL, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, DeletedAt: r.DeletedAt,
		Details: &shortener.Details{
			Owner: owner, Title: r.Title, Tags: r.Tags, Editable: r.Editable, Version: r.Version, ChangedAt: r.ChangedAt,
			Redirect: r.Redirect, Forward: r.Forward, FirstURL: r.FirstURL, URLChangedAt: r.URLChangedAt,
		},
	}
}

// date sets the time of the creation of a record that has none. It is the time of the import, or an earlier time at which the
// link existed already.
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

// check checks the members whose zero value means a default in a [shortener.Link].
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

// byteOrderMark begins the text files of some programs, in UTF-8.
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

// peek returns the next n bytes, or fewer at the end of the file. A later read reports an error.
func peek(r peeker, n int) []byte {
	b, _ := r.Peek(n)
	return b
}
