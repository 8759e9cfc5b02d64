package api

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/shortener/service"
	"keypool/shortener/token"
	"keypool/shortener/visits"
	"keypool/web/internal/media"
	"keypool/web/internal/parameters"
	"keypool/web/internal/problem"
	"keypool/web/internal/reply"
)

// visitReader returns the sender of a request for visits. It fails if the sender may not read visits or if visits are not
// counted.
func (a *API) visitReader(c echo.Context) (service.Actor, error) {
	actor, err := a.manager(c, token.ScopeRead)
	if err == nil && a.counter == nil {
		err = problem.ErrVisitsOff
	}
	return actor, err
}

// visitedLink returns the sender of a request for the visits of a link, and the code of the link. It fails if the sender
// may not read these visits. The link may be deleted.
func (a *API) visitedLink(c echo.Context) (actor service.Actor, code string, err error) {
	actor, err = a.visitReader(c)
	if err != nil {
		return actor, "", err
	}
	link, err := a.service.Find(c.Request().Context(), actor, parameters.Code(c))
	return actor, link.Code, err
}

// linkVisits answers GET and HEAD of /api/links/{code}/visits.
func (a *API) linkVisits(c echo.Context) error {
	actor, code, err := a.visitedLink(c)
	if err != nil {
		return err
	}
	q, err := readSeriesQuery(c.Request())
	if err != nil {
		return err
	}
	asOf := a.counter.AsOf() // read before the query, so that the query includes all visits before this time
	return a.sendVisits(c, actor, func(ctx context.Context) (table, error) {
		series, err := a.visits.Series(ctx, code, q.span, q.step)
		return newSeriesAnswer(code, series, q, asOf), err
	})
}

// facet answers GET and HEAD of /api/links/{code}/visits/{facet}.
func (a *API) facet(c echo.Context, f visits.Facet) error {
	actor, code, err := a.visitedLink(c)
	if err != nil {
		return err
	}
	q, err := readTopQuery(c.Request())
	if err != nil {
		return err
	}
	return a.sendVisits(c, actor, func(ctx context.Context) (table, error) {
		values, err := a.visits.Facet(ctx, code, f, q.span, q.limit)
		return newFacetAnswer(values), err
	})
}

// topSpan is the length of the period in which topVisits counts visits, if the client does not choose the beginning
// of the period.
const topSpan = 7 * 24 * time.Hour

// topVisits answers GET and HEAD of /api/visits/top.
func (a *API) topVisits(c echo.Context) error {
	actor, err := a.visitReader(c)
	if err != nil {
		return err
	}
	q, err := readTopQuery(c.Request())
	if err != nil {
		return err
	}
	if q.span.From.IsZero() {
		end := q.span.To
		if end.IsZero() {
			end = time.Now()
		}
		q.span.From = end.Add(-topSpan)
	}
	owner := actor.Token
	if actor.Admin {
		owner = 0
	}
	asOf := a.counter.AsOf() // as in linkVisits
	return a.sendVisits(c, actor, func(ctx context.Context) (table, error) {
		links, err := a.visits.Top(ctx, owner, q.span, q.limit)
		return newTopAnswer(links, asOf), err
	})
}

// sendVisits calls the function read, which queries the database, and sends the result as JSON or CSV. The service limits
// how many calls of read run at the same time, and how many answers are in memory while clients receive them.
func (a *API) sendVisits(c echo.Context, actor service.Actor, read func(context.Context) (table, error)) error {
	end, err := a.service.BeginAnswer(c.Request().Context(), actor)
	if err != nil {
		return err
	}
	defer end()
	answer, err := a.readVisits(c.Request().Context(), actor, read)
	if err != nil {
		return err
	}
	h := c.Response().Header()
	h.Set(echo.HeaderVary, echo.HeaderAccept)
	h.Set(echo.HeaderCacheControl, "no-store")
	if media.Negotiate(c.Request(), media.JSON, media.CSV) == media.CSV {
		return sendCSV(c, answer.lines())
	}
	return reply.JSON(c.Response(), media.JSON, http.StatusOK, answer)
}

// readVisits waits for a slot of the actor (see package slots), and then calls read. An error of read becomes an
// *UnavailableError.
func (a *API) readVisits(ctx context.Context, actor service.Actor, read func(context.Context) (table, error)) (table, error) {
	end, err := a.service.BeginRead(ctx, actor)
	if err != nil {
		return nil, err
	}
	defer end()
	answer, err := read(ctx)
	if err != nil {
		return nil, &shortener.UnavailableError{RetryAfter: visitsRetry, Err: err}
	}
	return answer, nil
}

// visitsRetry is the Retry-After of a query that failed or took too long.
const visitsRetry = time.Second
