// Package problem maps the errors of requests to problems (RFC 9457), and answers requests that failed.
//
// Invariants:
//
//   - one table maps errors to problems, and an error that is not in the table becomes a 500 without details;
//   - the length of an answer does not depend on the length of the request.
package problem

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// BearerScheme is the authentication scheme of tokens (RFC 6750).
const BearerScheme = "Bearer"

// Errors of requests.
var (
	// ErrTooManyMisses reports a client that has used up its misses. A miss is a request with an unknown code, a
	// creation with an alias that belongs to another link, or a failed sign-in.
	ErrTooManyMisses = errors.New("the client had too many misses")
	ErrLimited       = errors.New("the client created too many links")
	ErrVisitsOff     = errors.New("visits are not counted")
	// ErrMisdirected reports that a request for a page of package ui has a Host header that does not name the host of
	// the base URL. Without this error, another site could make its own host name lead to this service, and its scripts
	// could then use the pages (DNS rebinding).
	ErrMisdirected = errors.New("the Host header names another host")

	errMalformed    = errors.New("the request is malformed")
	errUnsupported  = errors.New("the media type is not supported")
	errTooLarge     = errors.New("the body is too large")
	errClientGone   = errors.New("the client closed the request")
	errUnauthorized = errors.New("the request has no valid token")
	errForbidden    = errors.New("the token does not permit the request")
)

// detailedError is an error with a text for the client.
type detailedError struct {
	error
	detail string
}

func (e *detailedError) Unwrap() error { return e.error }

// Malformed is the error of a request that does not have the form that the API describes. The client gets the detail.
func Malformed(detail string) error { return &detailedError{errMalformed, detail} }

// unsupportedError is errUnsupported with the media types that the body may have.
type unsupportedError struct {
	error
	accepted []string
}

func (e *unsupportedError) Unwrap() error { return e.error }

// Unsupported is the error of a body whose media type, content coding or charset is not supported. accepted are the
// media types that the body may have.
func Unsupported(accepted []string, detail string) error {
	return &unsupportedError{&detailedError{errUnsupported, detail}, accepted}
}

// TooLarge is the error of a body, or of a part of it, that has too many bytes or lines.
func TooLarge(detail string) error { return &detailedError{errTooLarge, detail} }

// Unauthorized is the error of a request without a valid token.
func Unauthorized(detail string) error { return &detailedError{errUnauthorized, detail} }

// Forbidden is the error of a request with a token that lacks a scope.
func Forbidden(detail string) error { return &detailedError{errForbidden, detail} }

// LimitedError reports that a client has reached a limit.
type LimitedError struct {
	Limit        error // ErrTooManyMisses or ErrLimited
	RetrySeconds int   // seconds after which the client may try again, at least 1
}

// Error implements error.
func (e *LimitedError) Error() string { return e.Limit.Error() }

// Unwrap returns the limit.
func (e *LimitedError) Unwrap() error { return e.Limit }

// Panicked is the error of a panic with the value v. The error contains the stack. Call Panicked in the deferred
// function that recovers v, because the stack still shows the place of the panic there.
func Panicked(v any) error { return fmt.Errorf("panic: %v\n%s", v, debug.Stack()) }

// suggestingError is a shortener.ErrAliasTaken with aliases that are free.
type suggestingError struct {
	error
	free []string
}

func (e *suggestingError) Unwrap() error { return e.error }

// WithSuggestions adds free aliases to the error of a creation whose alias is taken.
func WithSuggestions(err error, free []string) error { return &suggestingError{err, free} }

// Quote returns a name from a request in quotes. It shortens a long name, so that the length of the answer does not
// depend on the request.
func Quote(name string) string {
	const enough = 40
	if runes := []rune(name); len(runes) > enough {
		name = string(runes[:enough]) + "..."
	}
	return `"` + name + `"`
}
