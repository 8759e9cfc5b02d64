package service

import (
	"time"
	"unique"

	"keypool/shortener"
)

// entry is the answer of the store for one code, as the cache keeps it. It has 72 bytes and three pointers,
// where a Link and the time of its look-up have 152 bytes and eight pointers. It is immutable.
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

// newEntry returns the entry of a link, or of the zero Link if the store had no link. The entry shares
// no memory with the link. The code of a link may share memory with a whole batch of keys.
func newEntry(link shortener.Link, asked time.Duration) *entry {
	return &entry{
		text: link.Code + link.URL, codeBytes: len(link.Code), source: unique.Make(link.Source),
		created: link.CreatedAt.UnixMicro(), expires: link.ExpiresAt.UnixMicro(), deleted: link.DeletedAt.UnixMicro(),
		asked: asked, details: link.Details,
	}
}

func (e *entry) code() string { return e.text[:e.codeBytes] }

func (e *entry) missing() bool { return e.text == "" }

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
