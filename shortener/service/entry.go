package service

import (
	"time"
	"unique"
	"unsafe"

	"keypool/shortener"
)

// entry is the answer of the store for one code, as the cache keeps it. It is immutable.
//
// An entry contains the members that redirects and previews need. It lacks the title, the tags, the first URL and the time of the
// last change. The title, the tags and the first URL may need more memory than the rest of the link. Find and List, which read the
// store, return all members. An entry without details has 72 bytes and three pointers. A Link and the time of its look-up (a
// time.Time) would have 160 bytes and nine pointers.
type entry struct {
	text      string // the code, followed by the URL; empty if the store had no link
	codeBytes int32  // length of the code
	// age is the age of this state at the time asked, in milliseconds; see cache.latest. If the last look-up returned
	// the state, or if add stored the state, age is 0. If put stored the state, asked is the time before the change or
	// the read, and age is minus the duration of the change or the read.
	age     int32
	source  unique.Handle[string]
	created int64         // Unix time in microseconds, like expires and deleted
	expires int64         // the Unix time of the zero time.Time means never
	deleted int64         // the Unix time of the zero time.Time means never
	asked   time.Duration // time from the start of the cache to the start (not the end) of the last look-up or of the change
	details *shortener.Details
}

// detailedEntry is an entry and its details in one allocation.
type detailedEntry struct {
	entry
	of shortener.Details
}

// newEntry returns the entry of a link. The zero Link means that the store had no link. newEntry copies the code and
// the URL. The code of a link may share memory with a whole batch of keys. Without the copy, the cache would keep this
// memory in use.
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
		text: l.Code + l.URL, codeBytes: int32(len(l.Code)), source: unique.Make(l.Source),
		created: l.CreatedAt.UnixMicro(), expires: l.ExpiresAt.UnixMicro(), deleted: l.DeletedAt.UnixMicro(),
		asked: asked,
	}
}

// resolved returns a copy of the details of l with only the members that an entry keeps.
func resolved(l *shortener.Link) shortener.Details {
	d := l.Details
	return shortener.Details{
		Owner: d.Owner, Editable: d.Editable, Version: d.Version, Redirect: d.Redirect, Forward: d.Forward, URLChangedAt: l.URLChangedAt(),
	}
}

func (e *entry) code() string { return e.text[:e.codeBytes] }

func (e *entry) missing() bool { return e.text == "" }

// weight returns the number of links for which the entry counts in the size of the cache; see entryUnit.
func (e *entry) weight() uint32 {
	n := len(e.text)
	if e.details != nil {
		n += int(unsafe.Sizeof(*e.details))
	}
	return uint32(1 + n/entryUnit)
}

// olderThan reports whether other is a later state of the same link. It compares three values:
//
//   - the creation times, because the store may lose a link in a failover, and another link may then get the same code;
//   - the versions, because a look-up may begin after a change has begun, and nevertheless read the state before the change;
//   - the times of the look-ups and changes (the field asked), because a failover may lose the latest versions, and then a
//     lower version is the current state.
func (e *entry) olderThan(other *entry) bool {
	return e.created == other.created && e.version() < other.version() && e.asked <= other.asked
}

// follows reports whether e and other are states of the same link, and e is the later one. An older release did not
// change the version when it deleted a link. So follows also compares the deletion times.
func (e *entry) follows(other *entry) bool {
	return e.created == other.created &&
		(e.version() > other.version() || e.version() == other.version() && e.deleted > other.deleted)
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

// answer returns the link of the entry. If there is no link, answer returns ErrNotFound. If the link is a tombstone
// at the given time (now), answer returns ErrGone.
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
