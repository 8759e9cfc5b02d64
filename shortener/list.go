package shortener

import (
	"context"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Cursor is a position in the list of all links from the newest to the oldest: the links that follow the link with
// this code and time of creation. The zero Cursor is the start of the list. It stays valid when links are
// created, changed or deleted.
type Cursor struct {
	At   time.Time
	Code string
}

// IsZero reports whether the cursor is the start of the list.
func (c Cursor) IsZero() bool { return c.Code == "" }

// String returns the cursor in the form that ParseCursor takes. It contains no characters that a URL would have
// to escape. It is "" for the start of the list.
func (c Cursor) String() string {
	if c.IsZero() {
		return ""
	}
	return strconv.FormatInt(c.At.UnixMicro(), 36) + "." + c.Code
}

// ParseCursor returns the cursor with the given text.
func ParseCursor(text string) (c Cursor, ok bool) {
	if text == "" {
		return Cursor{}, true
	}
	at, code, _ := strings.Cut(text, ".")
	micros, err := strconv.ParseInt(at, 36, 64)
	if err != nil || !plausible(code) {
		return Cursor{}, false
	}
	return Cursor{time.UnixMicro(micros).UTC(), strings.Clone(code)}, true
}

// State is a set of links by whether they can be followed.
type State string

// The values of a State.
const (
	StateActive  State = "active"  // the links that can be followed
	StateExpired State = "expired" // the links that have expired and were not deleted
	StateDeleted State = "deleted"
	StateAll     State = "all"
)

// Filter selects links. A member with its zero value selects all links.
type Filter struct {
	Text  string // part of the URL, the title or the code; letter case is ignored
	Tag   string
	Host  string // host of the URL, without a port; letter case is ignored
	State State
}

func (f *Filter) selects(l *Link, now time.Time) bool {
	return f.selectsState(l, now) &&
		(f.Tag == "" || l.Details != nil && slices.Contains(l.Details.Tags, f.Tag)) &&
		(f.Host == "" || strings.EqualFold(f.Host, host(l.URL))) &&
		(f.Text == "" || contains(l, strings.ToLower(f.Text)))
}

func (f *Filter) selectsState(l *Link, now time.Time) bool {
	deleted := !l.DeletedAt.IsZero()
	switch f.State {
	case StateActive:
		return !l.Gone(now)
	case StateExpired:
		return l.Gone(now) && !deleted
	case StateDeleted:
		return deleted
	}
	return true
}

// contains reports whether the URL, the title or the code of l contains text, which is in lower case.
func contains(l *Link, text string) bool {
	for _, s := range []string{l.URL, l.Title(), l.Code} {
		if strings.Contains(strings.ToLower(s), text) {
			return true
		}
	}
	return false
}

// host returns the host of a stored URL, without the port.
func host(stored string) string {
	u, err := url.Parse(stored)
	if err != nil { // net/url is stricter than browsers
		return ""
	}
	return u.Hostname()
}

const (
	// MaxList is the maximum number of links that List returns.
	MaxList = 1000
	// maxExamined is how many links List reads, at most, to find those that the filter selects.
	maxExamined = 20_000
	// listTimeout is the time limit of one page that List and All read.
	listTimeout = 2 * time.Second
)

// List returns up to limit links that the actor may see and the filter selects, from the newest to the oldest, and
// the cursor of the links that follow them. limit is at most MaxList. The cursor is zero at the end of the
// list. If few links match, List may return fewer links than limit, or none, although others follow. It fails with an
// *UnavailableError.
func (s *Service) List(ctx context.Context, a Actor, f Filter, after Cursor, limit int) (links []Link, next Cursor, err error) {
	examined := 0
	for page, err := range s.pages(ctx, a, after, limit) {
		if err != nil {
			return nil, Cursor{}, err
		}
		now := s.now()
		for _, l := range page {
			next = Cursor{l.CreatedAt, l.Code}
			if f.selects(&l, now) {
				links = append(links, l)
			}
			if len(links) == limit {
				return links, next, nil
			}
		}
		if examined += len(page); examined >= maxExamined {
			return links, next, nil
		}
	}
	return links, Cursor{}, nil
}

// All yields every link that the actor may see and the filter selects, from the newest to the oldest. The sequence
// ends after the first error, which is an *UnavailableError.
func (s *Service) All(ctx context.Context, a Actor, f Filter) iter.Seq2[Link, error] {
	return func(yield func(Link, error) bool) {
		for page, err := range s.pages(ctx, a, Cursor{}, MaxList) {
			if err != nil {
				yield(Link{}, err)
				return
			}
			now := s.now()
			for _, l := range page {
				if f.selects(&l, now) && !yield(l, nil) {
					return
				}
			}
		}
	}
}

// pages yields the links that the actor may see, page by page. The first page has up to first links.
func (s *Service) pages(ctx context.Context, a Actor, after Cursor, first int) iter.Seq2[[]Link, error] {
	selection := Selection{Owner: a.Token, After: after, Limit: first}
	if a.Admin {
		selection.Owner = 0
	}
	return func(yield func([]Link, error) bool) {
		for {
			page, err := s.page(ctx, selection)
			if !yield(page, err) || err != nil || len(page) < selection.Limit {
				return
			}
			last := page[len(page)-1]
			selection.After, selection.Limit = Cursor{last.CreatedAt, last.Code}, MaxList
		}
	}
}

func (s *Service) page(ctx context.Context, selection Selection) ([]Link, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	page, err := s.store.Newest(ctx, selection)
	if err != nil {
		return nil, unavailable(err)
	}
	return page, nil
}
