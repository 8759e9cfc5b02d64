package service

import (
	"time"
	"unique"
	"unsafe"

	"keypool/shortener"
)

// entry is the answer of the store for one code, as the cache keeps it. It is immutable.
//
// It has what redirects and previews need. The title, the tags and the first URL of a link can be longer than the rest of it
// together, and only Find and List return them. An entry without details has 72 bytes and three pointers, where a Link and
// the time of its look-up have 152 bytes and eight pointers.
type entry struct {
	text      string // the code, followed by the URL; empty if the store had no link
	codeBytes int    // length of the code
	source    unique.Handle[string]
	created   int64         // microseconds of Unix time, like the next two
	expires   int64         // of the zero time: never
	deleted   int64         // of the zero time: never
	asked     time.Duration // the start of the look-up, not its end, since the start of the cache
	details   *shortener.Details
}

// detailedEntry is an entry and its details in one allocation.
type detailedEntry struct {
	entry
	of shortener.Details
}

// newEntry returns the entry of a link, or of the zero Link if the store had no link. The entry shares
// no memory with the link. The code of a link may share memory with a whole batch of keys.
func newEntry(link shortener.Link, asked time.Duration) *entry {
	if link.Details == nil {
		e := new(entry)
		e.set(&link, asked)
		return e
	}
	d := &detailedEntry{of: resolved(&link)}
	d.set(&link, asked)
	d.details = &d.of
	return &d.entry
}

// set sets all members apart from the details.
func (e *entry) set(l *shortener.Link, asked time.Duration) {
	*e = entry{
		text: l.Code + l.URL, codeBytes: len(l.Code), source: unique.Make(l.Source),
		created: l.CreatedAt.UnixMicro(), expires: l.ExpiresAt.UnixMicro(), deleted: l.DeletedAt.UnixMicro(),
		asked: asked,
	}
}

// resolved returns the details of l that Resolve returns.
func resolved(l *shortener.Link) shortener.Details {
	d := l.Details
	return shortener.Details{
		Owner: d.Owner, Editable: d.Editable, Version: d.Version, Redirect: d.Redirect, Forward: d.Forward, URLChangedAt: l.URLChangedAt(),
	}
}

func (e *entry) code() string { return e.text[:e.codeBytes] }

func (e *entry) missing() bool { return e.text == "" }

// weight is the number of links with an ordinary URL that need as much memory in the cache.
func (e *entry) weight() uint32 {
	n := len(e.text)
	if e.details != nil {
		n += int(unsafe.Sizeof(*e.details))
	}
	return uint32(1 + n/entryUnit)
}

// olderThan reports whether other is a later state of the same link. A link that the store lost in a failover and another link
// with its code differ in the time of their creation. The version alone does not
// decide, because a failover may lose the latest versions. The time alone does not, because a look-up may read before a change
// that began earlier.
func (e *entry) olderThan(other *entry) bool {
	return e.created == other.created && e.version() < other.version() && e.asked <= other.asked
}

func (e *entry) version() int64 {
	if e.details == nil {
		return 1
	}
	return e.details.Version
}

func (e *entry) link() shortener.Link {
	return shortener.Link{
		Code: e.code(), URL: e.text[e.codeBytes:], Source: e.source.Value(),
		CreatedAt: time.UnixMicro(e.created).UTC(), ExpiresAt: time.UnixMicro(e.expires).UTC(), DeletedAt: time.UnixMicro(e.deleted).UTC(),
		Details: e.details,
	}
}

// answer returns what the entry means at the time now.
func (e *entry) answer(now time.Time) (shortener.Link, error) {
	if e.missing() {
		return shortener.Link{}, shortener.ErrNotFound
	}
	link := e.link()
	if link.Gone(now) {
		return shortener.Link{}, shortener.ErrGone
	}
	return link, nil
}
