package token

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of Authenticate and Named.
var (
	// ErrUnknown reports that no token matches. In Authenticate, no token has the id and the secret. In Named, either no
	// token has the name, or every token with the name is revoked.
	ErrUnknown = errors.New("no token has this id and secret")
	// ErrRevoked reports that the token is revoked.
	ErrRevoked = errors.New("the token is revoked")
	// ErrExpired reports that the token has expired.
	ErrExpired = errors.New("the token has expired")
	// ErrUnavailable reports that the request needs a poll of the tokens, and that no poll succeeded in time.
	ErrUnavailable = errors.New("the tokens cannot be read")
)

// Registry keeps all tokens in memory. Its methods may be called concurrently.
type Registry struct {
	store  Store
	notes  Notes
	now    func() time.Time
	tokens atomic.Pointer[snapshot]
	read   atomic.Pointer[time.Time] // time at which the last successful poll began
	wanted chan struct{}             // demands a poll; has room for one value, because one poll serves all requests
	used   chan struct{}             // wakes runRecorder after a use that is not recorded; has room for one value

	mu   sync.Mutex
	next *poll // the next poll to begin; nil if no request waits for a poll
}

// Notes are functions that get the results of background tasks, so that the caller can report outages. One goroutine calls
// Poll, and another goroutine calls Record. While the tokens in memory are at most Freshness old, Poll gets nil.
type Notes struct {
	Poll   func(error)
	Record func(error)
}

// snapshot contains all tokens as of one version. It is immutable.
type snapshot struct {
	version int64
	byID    map[int64]*entry
	byName  map[string]*entry // the tokens that are not revoked
}

// entry is a token in memory.
type entry struct {
	Token
	digest [sha256.Size]byte
	uses   *uses // shared by the entries of the token in successive snapshots
}

// NewRegistry reads all tokens. It blocks until the database answers or ctx ends. The caller must call Run, which keeps the
// tokens up to date. If now is nil, the clock is time.Now.
func NewRegistry(ctx context.Context, store Store, notes Notes, now func() time.Time) (*Registry, error) {
	if now == nil {
		now = time.Now
	}
	r := &Registry{store: store, notes: notes, now: now, wanted: make(chan struct{}, 1), used: make(chan struct{}, 1)}
	r.tokens.Store(&snapshot{version: -1}) // the version in the database is never negative
	began := time.Now()
	if err := r.reload(ctx); err != nil {
		return nil, fmt.Errorf("read the tokens: %w", err)
	}
	r.read.Store(&began)
	return r, nil
}

// Run polls the tokens and records their uses until ctx ends. It returns nil. While the database
// does not answer, the registry keeps the tokens that it read last.
func (r *Registry) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { r.runPolls(ctx) })
	wg.Go(func() { r.runRecorder(ctx) }) // separate, because a write may wait for a lock
	wg.Wait()
	return nil
}

// Authenticate returns the token of a bearer. If the token is in memory with the secret of the bearer, Authenticate makes no
// query. If the bearer is malformed, Authenticate fails at once. Otherwise the token may be new or renewed, so Authenticate waits
// for the next poll, which all such requests share. It fails with ErrUnknown, ErrRevoked, ErrExpired or ErrUnavailable.
func (r *Registry) Authenticate(ctx context.Context, bearer string) (Token, error) {
	id, secret, ok := parseBearer(bearer)
	if !ok {
		return Token{}, ErrUnknown
	}
	digest := digestOf(secret)
	e := r.tokens.Load().find(id, digest)
	if e == nil {
		if err := r.awaitPoll(ctx); err != nil {
			return Token{}, err
		}
		e = r.tokens.Load().find(id, digest)
	}
	if e == nil {
		return Token{}, ErrUnknown
	}
	return r.use(e)
}

// find returns the token with this id and this digest of its secret, or nil if there is none.
func (s *snapshot) find(id int64, digest [sha256.Size]byte) *entry {
	e := s.byID[id]
	if e == nil || subtle.ConstantTimeCompare(digest[:], e.digest[:]) != 1 {
		return nil
	}
	return e
}

// use returns the token of e and records its use. It fails with ErrRevoked or ErrExpired.
func (r *Registry) use(e *entry) (Token, error) {
	now := r.now()
	switch {
	case !e.RevokedAt.IsZero():
		return Token{}, ErrRevoked
	case e.expired(now):
		return Token{}, ErrExpired
	}
	r.noteUse(e, now)
	return e.Token, nil
}

func (e *entry) expired(now time.Time) bool { return !e.ExpiresAt.IsZero() && !now.Before(e.ExpiresAt) }

// Named returns the token that has this name and is not revoked. It checks no secret, so the caller must have authenticated
// the person by other means. If a valid token in memory has the name, Named makes no query. For any other name it waits for the
// next poll, as Authenticate does. It fails with ErrUnknown, ErrExpired or ErrUnavailable.
func (r *Registry) Named(ctx context.Context, name string) (Token, error) {
	e := r.tokens.Load().byName[name]
	if e == nil || e.expired(r.now()) {
		if err := r.awaitPoll(ctx); err != nil {
			return Token{}, err
		}
		e = r.tokens.Load().byName[name]
	}
	if e == nil {
		return Token{}, ErrUnknown
	}
	return r.use(e)
}

// Valid returns the tokens that are neither revoked nor expired, in the order of their names.
func (r *Registry) Valid() []Token {
	now := r.now()
	var valid []Token
	for _, e := range r.tokens.Load().byName {
		if !e.expired(now) {
			valid = append(valid, e.Token)
		}
	}
	slices.SortFunc(valid, func(a, b Token) int { return strings.Compare(a.Name, b.Name) })
	return valid
}

// Name returns the name of the token with the id owner, even if the token is revoked. It returns "" if no token in memory has
// the id.
func (r *Registry) Name(owner int64) string {
	if e := r.tokens.Load().byID[owner]; e != nil {
		return e.Name
	}
	return ""
}

// Current returns the time up to which all changes of tokens are in memory. While the database answers in time, the result
// is at most Freshness ago.
func (r *Registry) Current() time.Time { return *r.read.Load() }
