package web

import (
	"errors"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
)

// takenError is a shortener.ErrAliasTaken with aliases that are free.
type takenError struct {
	error
	free []string
}

func (e *takenError) Unwrap() error { return e.error }

// suggest returns err, the error of a creation. If the alias is taken, it adds aliases that are free.
func (p *public) suggest(c echo.Context, r shortener.Request, err error) error {
	if r.Alias == nil || !errors.Is(err, shortener.ErrAliasTaken) {
		return err
	}
	return &takenError{err, p.service.Suggest(c.Request().Context(), *r.Alias)}
}
