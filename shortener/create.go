package shortener

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// createTimeout bounds one creation, all its attempts together.
	createTimeout = 5 * time.Second
	// maxAttempts ends a creation that meets nothing but conflicts. It is far beyond
	// what chance brings: random keys for a space that is 99 % full take 100 on average.
	maxAttempts = 10_000
)

// Request asks for one link. Nil means that the user did not give the field.
type Request struct {
	URL       string
	Alias     *string
	ExpiresAt *string // RFC 3339
	ExpiresIn *string // seconds as a decimal number, or a Go duration
	Self      string  // scheme://host[:port] of this service, which a link must not point to
}

// Create makes a link. existing is true when the alias already points to the
// very same URL, with the same expiry or none asked for, and the stored link is the
// answer. It fails with an *InvalidError, ErrAliasTaken, or an *UnavailableError;
// anything else, such as ErrRefused, is a fault of the program.
//
// It blocks until the link is durable, for five seconds at most. A user who goes
// away is not waited for between two attempts, but a commit that was begun is seen
// to its end: otherwise nobody knew whether its key is used.
func (s *Service) Create(ctx context.Context, r Request) (link Link, existing bool, err error) {
	asked := s.now()
	link, err = r.link(asked)
	if err != nil {
		return Link{}, false, err
	}
	link.CreatedAt = stamp(asked)
	if r.Alias != nil {
		existing, err = s.createAlias(ctx, &link)
	} else {
		err = s.createKey(ctx, &link)
	}
	if errors.Is(err, ErrAliasTaken) {
		return Link{}, false, err
	}
	s.noteRefusal(err)
	if err != nil {
		return Link{}, false, unavailable(err)
	}
	s.cache.put(link, asked)
	return link, existing, nil
}

// errNoFurtherKey says that keys were given, and only none in the place of those that had links.
var errNoFurtherKey = errors.New("no further key")

// noteRefusal remembers for Ready how the last creation went. That the queue was full
// says nothing of the one after the next, as little as that all codes of one URL are in
// use, and that a user left nothing at all.
func (s *Service) noteRefusal(err error) {
	switch {
	case err == nil:
		if s.refused.Load() != nil {
			s.refused.Store(nil)
		}
	case !errors.Is(err, errQueueFull) && !errors.Is(err, errNoFurtherKey) && !errors.Is(err, context.Canceled):
		now := s.now()
		s.refused.Store(&now)
	}
}

// link checks the request and gives the link it asks for: without its time, and
// without its code unless that is an alias.
func (r *Request) link(now time.Time) (Link, error) {
	url, err := normalizeURL(r.URL, r.Self)
	if err != nil {
		return Link{}, err
	}
	expires, err := parseExpiry(r.ExpiresAt, r.ExpiresIn, now)
	if err != nil {
		return Link{}, err
	}
	link := Link{URL: url, ExpiresAt: expires}
	if r.Alias != nil {
		if err := checkAlias(*r.Alias); err != nil {
			return Link{}, err
		}
		// A copy, because the alias may be a piece of a body that it would keep in memory.
		link.Code, link.Source = strings.Clone(*r.Alias), SourceAlias
	}
	return link, nil
}

// createKey draws keys for link until the store takes one.
func (s *Service) createKey(ctx context.Context, link *Link) error {
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	random := 0
	for attempt := range maxAttempts {
		if err := ctx.Err(); err != nil {
			return err
		}
		outcome, err := s.tryKey(work, link, attempt)
		if attempt > 0 && errors.Is(err, ErrKeysExhausted) {
			return fmt.Errorf("%w after %d: %w", errNoFurtherKey, attempt, err)
		}
		if err != nil {
			return err
		}
		if link.Source == SourceRandom {
			random++
		}
		if outcome == Inserted {
			s.metrics.createdWithKey(random)
			return nil
		}
	}
	return fmt.Errorf("%w: %d in a row belonged to other links", ErrKeysExhausted, maxAttempts)
}

// errRouted abandons a key that would make a link nobody could follow. The books have no
// reason of their own for the few there are: they count it among the lost.
var errRouted = errors.New("the code is a path of this service")

// tryKey draws one key for link, commits them together and tells the key's lease. After
// a crash in between the lease is still on record, and its keys are given up.
func (s *Service) tryKey(ctx context.Context, link *Link, attempt int) (Outcome, error) {
	key, err := s.keys.Next(ctx, link.URL, attempt)
	if err != nil {
		return 0, fmt.Errorf("draw a key: %w", err)
	}
	link.Code, link.Source = key.Code, key.Source
	source := s.metrics.source(key.Source)
	source.taken.Inc()
	if routed(key.Code) {
		key.settle(errRouted)
		return Conflict, nil
	}
	outcome, err := s.committer.commit(ctx, *link)
	key.settle(err)
	if err != nil {
		return 0, fmt.Errorf("commit a key: %w", err)
	}
	if outcome == Conflict {
		source.conflicts.Inc()
	}
	return outcome, nil
}

// settle tells the lease what became of the key whose commit ended with err.
func (k Key) settle(err error) {
	switch {
	case k.Lease == nil:
	case err == nil: // also after a conflict: then another link has the code
		k.Lease.Spent()
	case errors.Is(err, ErrNotWritten):
		k.Lease.Unused(k.Code)
	default:
		k.Lease.Lost(k.Code)
	}
}

// errAliasUnowned is a mistake of the store, and so must not look like the user's.
var errAliasUnowned = errors.New("the row that the alias conflicted with is not there")

// createAlias inserts link first and only looks who has its code when the store
// refuses: the other way round, two users could both find an alias free. Where the
// stored link is as good as the one asked for, *link becomes that one.
func (s *Service) createAlias(ctx context.Context, link *Link) (existing bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	outcome, err := s.committer.commit(ctx, *link)
	if err != nil {
		return false, fmt.Errorf("commit an alias: %w", err)
	}
	if outcome == Inserted {
		s.metrics.createdByAlias.Inc()
		return false, nil
	}
	ctx, cancel = context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	stored, err := s.store.Lookup(ctx, link.Code)
	if errors.Is(err, ErrNotFound) {
		err = errAliasUnowned
	}
	if err != nil {
		return false, fmt.Errorf("look up the owner of an alias: %w", err)
	}
	if stored.Gone(s.now()) || !stored.serves(*link) {
		return false, ErrAliasTaken
	}
	*link = stored
	return true, nil
}

// serves reports whether l is what the creation of wanted asked for: the same URL,
// and the same expiry where one was asked for.
func (l *Link) serves(wanted Link) bool {
	sameExpiry := wanted.ExpiresAt.IsZero() || wanted.ExpiresAt.Equal(l.ExpiresAt)
	return sameExpiry && wanted.URL == l.URL
}
