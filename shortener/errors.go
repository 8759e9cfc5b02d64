package shortener

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotFound reports that neither a link nor a tombstone has the code.
	ErrNotFound = errors.New("no link has this code")
	// ErrGone reports that the link with the code was deleted or has expired.
	ErrGone = errors.New("the link was deleted or has expired")
	// ErrLinkBlocked reports that the link with the code leads to a host on the block list. It wraps
	// ErrGone, because neither a blocked link nor a deleted link resolves. But a blocked link
	// resolves again after its host is removed from the list.
	ErrLinkBlocked = fmt.Errorf("%w, or its host is blocked", ErrGone)
	// ErrAliasTaken reports that the alias belongs to another link or to a tombstone.
	ErrAliasTaken = errors.New("the alias belongs to another link")
	// ErrFixed reports a change of the URL of a link that is not editable.
	ErrFixed = errors.New("the URL of the link is fixed")
	// ErrVersion reports that a change requires another version of the link.
	ErrVersion = errors.New("the link has another version")
	// ErrKeyReused reports that an idempotency key belongs to a creation with another payload.
	ErrKeyReused = errors.New("the idempotency key belongs to another request")
	// ErrKeyBusy reports that another creation with the same idempotency key is in progress.
	ErrKeyBusy = errors.New("a request with the same idempotency key is in progress")
	// ErrKeysExhausted reports that neither the key source nor the fallback has a key.
	ErrKeysExhausted = errors.New("no key is available")
)

// Errors of a [Store].
var (
	// ErrNotWritten reports that a write failed and that no part of it became durable.
	ErrNotWritten = errors.New("nothing was written")
	// ErrStoreFull reports that the store refused a write for lack of disk space. Rows
	// that were written earlier are intact.
	ErrStoreFull = errors.New("the store is out of disk space")
	// ErrChanged reports that a link has changed since the caller read it.
	ErrChanged = errors.New("the link has changed")
	// ErrPosition reports that a position in a list of links is malformed.
	ErrPosition = errors.New("the position in the list is malformed")
	// ErrDetails reports that the details of a stored link cannot be decoded.
	ErrDetails = errors.New("the details of the link cannot be decoded")
	// ErrRefused reports that the engine rejects the data of a link. A repetition of the write would
	// fail too. An error of a Store that wraps ErrRefused also wraps ErrNotWritten.
	ErrRefused = errors.New("the store rejects the data of the link")
)

// InvalidError reports which field of a request is invalid and which values are valid. Its text may
// be shown to the user.
type InvalidError struct {
	Field  string // name of the member of the request or of the imported link, such as "url"
	Reason string // a clause that follows the name of the field: "must have a host"
}

func (e *InvalidError) Error() string { return e.Field + " " + e.Reason }

// UnavailableError reports that a request failed for a temporary reason, and when to repeat
// the request. The service has acknowledged no part of the request.
type UnavailableError struct {
	RetryAfter time.Duration
	Err        error // the cause, for the log; it is never shown to the user
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("unavailable, retry after %s: %v", e.RetryAfter, e.Err)
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }
