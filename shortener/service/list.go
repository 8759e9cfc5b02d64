package service

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"keypool/shortener"
	"keypool/shortener/destination"
)

// State selects links by whether they have expired or were deleted.
type State string

// The values of a State.
const (
	StateActive  State = "active"  // the links that have not expired and were not deleted
	StateExpired State = "expired" // the links that have expired and were not deleted
	StateDeleted State = "deleted"
	StateAll     State = "all"
)

// States returns the values of a State.
func States() []State { return []State{StateActive, StateExpired, StateDeleted, StateAll} }

// Filter selects the links that match all its members. A member with its zero value matches all links.
type Filter struct {
	Text  string // part of the URL, the title or the code; letter case is ignored
	Tag   string
	Host  string // host of the URL, in any spelling, without a port
	State State
}

// among returns the links that the filter selects.
func (f *Filter) among(links []shortener.Link, now time.Time) (selected []shortener.Link) {
	wanted, known := destination.ParseHost(f.Host)
	text := strings.ToLower(f.Text)
	for i := range links {
		sameHost := f.Host == "" || known && destination.HostOf(links[i].URL) == wanted
		if sameHost && f.selects(&links[i], now) && contains(&links[i], text) {
			selected = append(selected, links[i])
		}
	}
	return selected
}

// selects reports whether the filter, apart from the host and the text, selects l.
func (f *Filter) selects(l *shortener.Link, now time.Time) bool {
	return f.selectsState(l, now) &&
		(f.Tag == "" || l.Details != nil && slices.Contains(l.Details.Tags, f.Tag))
}

func (f *Filter) selectsState(l *shortener.Link, now time.Time) bool {
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
func contains(l *shortener.Link, text string) bool {
	if text == "" {
		return true
	}
	for _, s := range []string{l.URL, l.Title(), l.Code} {
		if strings.Contains(strings.ToLower(s), text) {
			return true
		}
	}
	return false
}

const (
	// MaxList is the maximum number of links that List returns.
	MaxList = 1000
	// listPart is the number of links that List and All read at a time, so that a slow client keeps few links in memory.
	// If few links match, List and All read more links at a time.
	listPart = 100
	// maxListBytes is the number of bytes of links after which List returns, although further links follow. The result
	// can exceed this number by at most listPart links.
	maxListBytes = 512 << 10
	// maxAnswers is the maximum number of lists and counts of visits that are in memory while clients receive them.
	maxAnswers = 8
	// maxStreams is the maximum number of calls of All at the same time.
	maxStreams = 16
	// maxExamined is the number of links after which List stops its search for links that the filter selects.
	maxExamined = 20_000
	// listTimeout is the time limit for reading one page. List and All read pages.
	listTimeout = 2 * time.Second
	// scanTimeout is the time after which List reads no further page.
	scanTimeout = 5 * time.Second
	// defaultReaders is the default of Config.Readers.
	defaultReaders = 4
	// readWait is the maximum time that BeginRead, BeginAnswer and each page of List wait for a slot.
	readWait = time.Second
	// streamWait is the maximum time that All, and then each page of All, waits for a slot. It is longer than readWait,
	// because the caller of All cannot continue the sequence after an error.
	streamWait = 10 * time.Second
)

// BeginRead waits for a slot (see package slots) for a query that may read many rows, such as a query for visits. The
// caller calls end after the query. If no slot becomes free within one second, BeginRead fails with an *UnavailableError.
// Without slots, the queries of one token could occupy all connections to the database. List and All wait for their slots
// themselves.
func (s *Service) BeginRead(ctx context.Context, a Actor) (end func(), err error) {
	return begin(ctx, s.reads, a, readWait)
}

// BeginAnswer waits for a slot (see package slots) for an answer that is kept in memory until the client has received it. The caller
// calls BeginAnswer before List or a query for visits, and calls end after it has sent the answer. If no slot becomes free within
// one second, BeginAnswer fails with an *UnavailableError. Without slots, many slow clients could keep many answers in memory.
func (s *Service) BeginAnswer(ctx context.Context, a Actor) (end func(), err error) {
	return begin(ctx, s.answers, a, readWait)
}

// List returns links that the actor may see and the filter selects, from the newest to the oldest. It returns up to
// limit links within eight seconds (scanTimeout, plus readWait and listTimeout for the last page). The parameter limit
// is at most MaxList. List also returns the position from which the next call continues, or "" at the end of the list.
// The position stays valid when links are created, changed or deleted. List fails with ErrPosition or with an
// *UnavailableError.
//
// List may return fewer links than limit, or no links, although further links follow. This happens if few links match, if
// the links have more than 512 KiB (maxListBytes), or if a page after the first cannot be read.
func (s *Service) List(ctx context.Context, a Actor, f Filter, from string, limit int) (links []shortener.Link, next string, err error) {
	size, bytes := min(limit, listPart), 0
	for examined, began := 0, s.now(); examined < maxExamined && s.now().Sub(began) < scanTimeout; {
		if examined > 0 && clientLeft(ctx) {
			break
		}
		page, next, err := s.page(ctx, a, from, size, readWait)
		if err != nil && examined > 0 {
			break // the next call begins here with a shorter page, which may succeed; if that call fails too, it returns the error
		}
		if err != nil {
			return nil, "", err
		}
		selected, rest := f.among(page, s.now()), limit-len(links)
		if most := min(rest, listPart); len(selected) > most {
			// Read a shorter page. All its selected links must fit, because next is after the whole page.
			size = max(most, size/4)
			continue
		}
		links, from, bytes = append(links, selected...), next, bytes+memory(selected)
		if len(links) == limit || next == "" || bytes > maxListBytes {
			return links, next, nil
		}
		examined += len(page)
		if 4*len(selected) < len(page) { // few links match
			size = min(4*size, MaxList)
		} else {
			size = min(limit-len(links), listPart)
		}
	}
	return links, from, nil
}

// clientLeft reports whether the client of a request with the context ctx has left.
func clientLeft(ctx context.Context) bool { return ctx.Err() != nil }

// memory returns the approximate number of bytes of the texts of links.
func memory(links []shortener.Link) (bytes int) {
	for i := range links {
		bytes += len(links[i].URL)
		if d := links[i].Details; d != nil {
			bytes += len(d.Title) + len(d.FirstURL)
			for _, tag := range d.Tags {
				bytes += len(tag)
			}
		}
	}
	return bytes
}

// All yields every link that the actor may see and the filter selects, from the newest to the oldest. It reads the links in
// pages, and yields the selected links of each page, which may be none. The sequence waits for a slot (see package slots)
// before its first query, and occupies the slot until the sequence ends. It ends after the first error, which is an
// *UnavailableError.
func (s *Service) All(ctx context.Context, a Actor, f Filter) iter.Seq2[[]shortener.Link, error] {
	return func(yield func([]shortener.Link, error) bool) {
		end, err := begin(ctx, s.streams, a, streamWait)
		if err != nil {
			yield(nil, err)
			return
		}
		defer end()
		for from, size := "", listPart; ; {
			if from != "" && clientLeft(ctx) {
				yield(nil, unavailable(ctx.Err()))
				return
			}
			page, next, err := s.page(ctx, a, from, size, streamWait)
			if err != nil {
				yield(nil, err)
				return
			}
			selected := f.among(page, s.now())
			if len(selected) > listPart { // too many links to keep in memory while a slow client receives them
				size = listPart
				continue
			}
			if 4*len(selected) < len(page) { // few links match
				size = min(4*size, MaxList)
			} else {
				size = listPart
			}
			if from = next; !yield(selected, nil) || from == "" {
				return
			}
		}
	}
}

// page reads links that the actor may see. It waits up to the given time for a slot.
func (s *Service) page(ctx context.Context, a Actor, from string, limit int, wait time.Duration) (links []shortener.Link, next string, err error) {
	end, err := begin(ctx, s.reads, a, wait)
	if err != nil {
		return nil, "", err
	}
	defer end()
	selection := shortener.Selection{Owner: a.Token, From: from, Limit: limit}
	if a.Admin {
		selection.Owner = 0
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTimeout) // a client that leaves does not cancel the query
	defer cancel()
	links, next, err = s.store.Newest(ctx, selection)
	if err != nil && !errors.Is(err, shortener.ErrPosition) {
		err = unavailable(err)
	}
	return links, next, err
}
