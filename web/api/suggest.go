package api

import (
	"errors"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/web/internal/problem"
)

// suggest returns err, the error of a creation. If the alias is taken, suggest adds aliases that are
// free.
func (a *API) suggest(c echo.Context, r shortener.Request, err error) error {
	if r.Alias == nil || !errors.Is(err, shortener.ErrAliasTaken) {
		return err
	}
	return problem.WithSuggestions(err, a.service.Suggest(c.Request().Context(), *r.Alias))
}
