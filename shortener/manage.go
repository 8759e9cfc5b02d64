package shortener

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"keypool/shortener/destination"
)

// Actor is who manages links: a token.
type Actor struct {
	Token int64 // id of the token
	Admin bool  // whether the token may see and change all links
}

// sees reports whether the actor may see and change l.
func (a Actor) sees(l *Link) bool { return a.Admin || a.Token != 0 && l.Owner() == a.Token }

// Patch describes a change of a link. A nil member stays as it is. The zero value of ExpiresAt, Title or Tags clears
// the member.
type Patch struct {
	URL       *string
	ExpiresAt *string // RFC 3339
	Title     *string
	Tags      *[]string
	Redirect  *int
	Forward   *string

	Versions []int64            // if not nil, the change requires that the link has one of these versions
	Self     destination.Origin // origin of this service; a link must not lead to it
}

// Find returns the link with this code, also if it is a tombstone. It reads the store and not the cache. It
// fails with ErrNotFound if there is no link that the actor may see, or with an *UnavailableError. It takes
// at most 0.9 s.
func (s *Service) Find(ctx context.Context, a Actor, code string) (Link, error) {
	if !plausible(code) {
		return Link{}, ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	link, err := s.store.Lookup(ctx, code)
	switch {
	case errors.Is(err, ErrNotFound):
		return Link{}, ErrNotFound
	case err != nil:
		return Link{}, unavailable(err)
	case !a.sees(&link):
		return Link{}, ErrNotFound
	}
	return link, nil
}

// Change changes the link with this code and returns the new link. It blocks until the change is durable, for
// at most five seconds. The other servers use the new link at most Freshness later.
//
// It fails with ErrNotFound, as Find does, with ErrGone for a tombstone, with ErrFixed for another URL of a fixed
// link, with [destination.ErrBlocked] for a URL that leads to a blocked host, with ErrVersion if the link has another
// version than p requires, with an *InvalidError, or with an *UnavailableError. After an *UnavailableError the link may
// have changed. If every member has its new value already, the link stays as it is and keeps its version.
func (s *Service) Change(ctx context.Context, a Actor, code string, p Patch) (Link, error) {
	return s.change(ctx, a, code, func(l Link, now time.Time) (Link, error) {
		if err := requireVersion(&l, p.Versions); err != nil {
			return Link{}, err
		}
		return p.apply(l, now, &s.destinations)
	})
}

// Delete turns the link with this code into a tombstone. It does nothing if the link is deleted already. If versions
// is not nil, it requires that the link has one of these versions. It fails as Change does.
func (s *Service) Delete(ctx context.Context, a Actor, code string, versions []int64) error {
	_, err := s.change(ctx, a, code, func(l Link, now time.Time) (Link, error) {
		deleted, err := tombstone(l, now)
		return deleted, cmp.Or(err, requireVersion(&l, versions))
	})
	if errors.Is(err, errDeleted) {
		return nil
	}
	return err
}

func requireVersion(l *Link, versions []int64) error {
	if versions != nil && !slices.Contains(versions, l.Version()) {
		return ErrVersion
	}
	return nil
}

// Delete turns the link with this code into a tombstone. It does nothing if the link is deleted already, and fails
// with ErrNotFound if there is no link. Other than the method of Service, it does not need a service.
func Delete(ctx context.Context, store Store, code string, now time.Time) error {
	_, err := replace(ctx, store, code, func(l Link) (Link, error) { return tombstone(l, stamp(now)) })
	if errors.Is(err, errDeleted) {
		return nil
	}
	return err
}

// change replaces the link with this code by the result of f.
func (s *Service) change(ctx context.Context, a Actor, code string, f func(l Link, now time.Time) (Link, error)) (Link, error) {
	if !plausible(code) {
		return Link{}, ErrNotFound
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	var asked time.Time
	var version int64
	link, err := replace(ctx, s.store, code, func(l Link) (Link, error) {
		if !a.sees(&l) {
			return Link{}, ErrNotFound
		}
		asked, version = s.now(), l.Version()
		return f(l, stamp(asked))
	})
	switch {
	case err == nil && link.Version() == version:
		return link, nil // the cache must not take it, because the look-up began before asked
	case err == nil:
		s.cache.put(link, asked)
		return link, nil
	case isRefusal(err):
		return Link{}, err
	}
	return Link{}, unavailable(err)
}

// isRefusal reports whether err concerns the request and not the store.
func isRefusal(err error) bool {
	for _, refusal := range []error{ErrNotFound, ErrGone, ErrFixed, ErrVersion, ErrRefused, errDeleted} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return isInvalid(err)
}

// maxRaces is how many times replace begins again because another change came first.
const maxRaces = 100

// replace reads the link with this code, calls change and replaces the link by the result, unless the result has the same
// version. If the link changes in between, it begins again.
func replace(ctx context.Context, store Store, code string, change func(Link) (Link, error)) (Link, error) {
	for range maxRaces {
		old, err := store.Lookup(ctx, code)
		if err != nil {
			return Link{}, err
		}
		changed, err := change(old)
		if err != nil {
			return Link{}, err
		}
		if changed.Version() == old.Version() {
			return old, nil
		}
		if err := store.Change(ctx, old, changed); !errors.Is(err, ErrChanged) {
			return changed, err
		}
	}
	return Link{}, fmt.Errorf("%w %d times during this change", ErrChanged, maxRaces)
}

// errDeleted reports that a link was deleted before.
var errDeleted = fmt.Errorf("%w: it is deleted already", ErrGone)

// tombstone returns the link after its deletion.
func tombstone(l Link, now time.Time) (Link, error) {
	if !l.DeletedAt.IsZero() {
		return Link{}, errDeleted
	}
	l.Details = l.nextDetails(now)
	l.DeletedAt = stamp(now)
	return l, nil
}

// nextDetails returns a copy of the details for the next version of the link.
func (l *Link) nextDetails(now time.Time) *Details {
	next := Details{Version: 1}
	if l.Details != nil {
		next = *l.Details
	}
	next.Version++
	next.ChangedAt = now
	return &next
}

// apply returns the link after the change. If nothing changes, the result is l with the same version.
func (p *Patch) apply(l Link, now time.Time, allowed *destination.Rules) (Link, error) {
	before := l
	if l.Gone(now) {
		return Link{}, ErrGone
	}
	d := l.nextDetails(now)
	if err := p.applyURL(&l, d, allowed); err != nil {
		return Link{}, err
	}
	if p.ExpiresAt != nil {
		at := p.ExpiresAt
		if *at == "" {
			at = nil
		}
		expires, err := parseExpiry(at, nil, now)
		if err != nil {
			return Link{}, err
		}
		l.ExpiresAt = expires
	}
	if err := d.set(*p); err != nil {
		return Link{}, err
	}
	if l.URL == before.URL && l.ExpiresAt.Equal(before.ExpiresAt) && d.sameChoices(before.Details) {
		return before, nil
	}
	l.Details = d
	return l, nil
}

func (p *Patch) applyURL(l *Link, d *Details, allowed *destination.Rules) error {
	if p.URL == nil {
		return nil
	}
	url, err := normalURL(allowed, *p.URL, p.Self)
	if err != nil {
		return err
	}
	if url == l.URL {
		return nil
	}
	if !l.Editable() {
		return ErrFixed
	}
	if d.FirstURL == "" {
		d.FirstURL = l.URL
	}
	l.URL = url
	return nil
}
