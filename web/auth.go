package web

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/shortener/token"
)

// bearerScheme is the authentication scheme of tokens (RFC 6750).
const bearerScheme = "Bearer"

// Tokens knows the API tokens. [*token.Registry] implements it.
type Tokens interface {
	// Authenticate returns the token of a bearer. It fails with token.ErrUnknown, token.ErrRevoked,
	// token.ErrExpired or token.ErrUnavailable.
	Authenticate(ctx context.Context, bearer string) (token.Token, error)
	// Name returns the name of the token with this id, which may be revoked, or "" if there is none.
	Name(owner int64) string
}

var _ Tokens = (*token.Registry)(nil)

// noTokens is the Tokens of a service without tokens.
type noTokens struct{}

func (noTokens) Authenticate(context.Context, string) (token.Token, error) {
	return token.Token{}, token.ErrUnknown
}

func (noTokens) Name(int64) string { return "" }

const (
	sendBearer = "Send the header Authorization: Bearer TOKEN with a valid token."
	// tokensRetry is the Retry-After of a request whose token cannot be checked.
	tokensRetry = time.Second
)

// identify returns the token of a request. ok is false if the request has no credentials for this service.
// Credentials of the scheme Basic do not count, because a proxy in front of this service may use
// them and pass them on.
func (p *public) identify(c echo.Context) (tok token.Token, ok bool, err error) {
	given := c.Request().Header[echo.HeaderAuthorization]
	if len(given) == 0 {
		return token.Token{}, false, nil
	}
	if len(given) > 1 {
		return token.Token{}, false, unauthorized("The request has several Authorization headers. Send one header.")
	}
	scheme, bearer, _ := strings.Cut(given[0], " ")
	if strings.EqualFold(scheme, "Basic") {
		return token.Token{}, false, nil
	}
	if !strings.EqualFold(scheme, bearerScheme) {
		return token.Token{}, false, unauthorized("The Authorization header does not have the scheme Bearer. " + sendBearer)
	}
	tok, err = p.tokens.Authenticate(c.Request().Context(), strings.TrimSpace(bearer))
	if err != nil {
		return token.Token{}, false, refusal(err)
	}
	return tok, true, nil
}

// refusal translates an error of Tokens.Authenticate.
func refusal(err error) error {
	switch {
	case errors.Is(err, token.ErrRevoked):
		return unauthorized("The token is revoked. " + sendBearer)
	case errors.Is(err, token.ErrExpired):
		return unauthorized("The token has expired. " + sendBearer)
	case errors.Is(err, token.ErrUnavailable):
		return &shortener.UnavailableError{RetryAfter: tokensRetry, Err: err}
	}
	return unauthorized("The token is not known. " + sendBearer)
}

// permit returns an error unless the token has the scope.
func permit(tok token.Token, scope token.Scopes) error {
	if !tok.Scopes.Has(scope) {
		return forbidden("The token does not have the scope " + scope.String() + ".")
	}
	return nil
}

// admitCreation decides whether the client may create a link, and counts the creation against the limit of
// the token or of the address. owned is false if the creation is anonymous.
func (p *public) admitCreation(c echo.Context) (tok token.Token, owned bool, err error) {
	tok, owned, err = p.identify(c)
	switch {
	case err != nil:
		return token.Token{}, false, err
	case !owned && p.limits.TokensOnly:
		return token.Token{}, false, unauthorized("Only clients with a token may create links here. " + sendBearer)
	case !owned:
		return token.Token{}, false, p.limits.spendAnonymous(c)
	}
	if err := permit(tok, token.ScopeCreate); err != nil {
		return token.Token{}, false, err
	}
	return tok, true, p.limits.spendToken(c, tok)
}
