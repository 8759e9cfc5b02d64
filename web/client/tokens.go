package client

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/shortener/token"
	"keypool/web/internal/problem"
)

// Tokens knows the API tokens. [*token.Registry] implements it.
type Tokens interface {
	// Authenticate returns the token of a bearer. It fails with token.ErrUnknown, token.ErrRevoked,
	// token.ErrExpired or token.ErrUnavailable.
	Authenticate(ctx context.Context, bearer string) (token.Token, error)
	// Name returns the name of the token with the id owner, even if the token is revoked. It returns "" if no token has this id.
	Name(owner int64) string
}

var _ Tokens = (*token.Registry)(nil)

// NoTokens implements [Tokens] for a service without tokens.
type NoTokens struct{}

// Authenticate implements [Tokens].
func (NoTokens) Authenticate(context.Context, string) (token.Token, error) {
	return token.Token{}, token.ErrUnknown
}

// Name implements [Tokens].
func (NoTokens) Name(int64) string { return "" }

const (
	// SendBearer is the last sentence of each problem that reports a missing or invalid token.
	SendBearer = "Send the header Authorization: Bearer TOKEN with a valid token."
	// tokensRetry is the Retry-After of the answer if the token of a request cannot be checked.
	tokensRetry = time.Second
)

// Identify returns the token of a request. ok is false if the request has no credentials for this service.
// Credentials of the scheme Basic do not count, because a client may send them for a proxy in front of this
// service, and the proxy may pass them on.
func Identify(c echo.Context, tokens Tokens) (tok token.Token, ok bool, err error) {
	given := c.Request().Header[echo.HeaderAuthorization]
	if len(given) == 0 {
		return token.Token{}, false, nil
	}
	if len(given) > 1 {
		return token.Token{}, false, problem.Unauthorized("The request has several Authorization headers. Send one header.")
	}
	scheme, bearer, _ := strings.Cut(given[0], " ")
	if strings.EqualFold(scheme, "Basic") {
		return token.Token{}, false, nil
	}
	if !strings.EqualFold(scheme, problem.BearerScheme) {
		return token.Token{}, false, problem.Unauthorized("The Authorization header does not have the scheme Bearer. " + SendBearer)
	}
	tok, err = tokens.Authenticate(c.Request().Context(), strings.TrimSpace(bearer))
	if err != nil {
		return token.Token{}, false, refusal(err)
	}
	return tok, true, nil
}

// refusal translates an error of Tokens.Authenticate into an error that package problem maps to an
// answer.
func refusal(err error) error {
	switch {
	case errors.Is(err, token.ErrRevoked):
		return problem.Unauthorized("The token is revoked. " + SendBearer)
	case errors.Is(err, token.ErrExpired):
		return problem.Unauthorized("The token has expired. " + SendBearer)
	case errors.Is(err, token.ErrUnavailable):
		return &shortener.UnavailableError{RetryAfter: tokensRetry, Err: err}
	}
	return problem.Unauthorized("The token is not known. " + SendBearer)
}

// Permit returns an error unless the token has the scope.
func Permit(tok token.Token, scope token.Scopes) error {
	if !tok.Scopes.Has(scope) {
		return problem.Forbidden("The token does not have the scope " + scope.String() + ".")
	}
	return nil
}
