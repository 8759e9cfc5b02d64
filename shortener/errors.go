package shortener

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotFound says that no link has this code and none ever had.
	ErrNotFound = errors.New("no link has this code")
	// ErrGone says that the link with this code was deleted or has expired.
	ErrGone = errors.New("the link is gone")
	// ErrAliasTaken says that the alias belongs to another link, perhaps to one that is gone.
	ErrAliasTaken = errors.New("the alias is taken")
	// ErrStoreFull says that a store refused a write for want of space; what was there is unharmed.
	ErrStoreFull = errors.New("the store has no space left")
	// ErrNotWritten says that a write failed before anything of it could become durable.
	ErrNotWritten = errors.New("nothing was written")
	// ErrKeysExhausted says that no supply, the fallback included, had a key to give.
	ErrKeysExhausted = errors.New("no key is available")
)

// InvalidError says which field of a request was wrong, and what is accepted.
// Its text may be shown to the user as it stands.
type InvalidError struct {
	Field  string // "url", "alias", "expires_at" or "expires_in"
	Reason string // a clause that follows the name of the field: "must have a host"
}

func (e *InvalidError) Error() string { return e.Field + " " + e.Reason }

// UnavailableError says that a request was refused for a reason that will pass,
// and when to try again. Nothing the request asked for was acknowledged.
type UnavailableError struct {
	RetryAfter time.Duration
	Err        error // why, for the log; never shown to the user
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("unavailable, retry after %s: %v", e.RetryAfter, e.Err)
}

// Unwrap gives the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }
