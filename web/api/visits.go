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

// readVisits waits for the turn of the actor, because the service limits how many queries run at the same time. Then it
// calls the function read, which makes one query.
func (a *API) readVisits(c echo.Context, actor service.Actor, read func(context.Context) error) error {
	ctx := c.Request().Context()
	end, err := a.service.BeginRead(ctx, actor)
	if err != nil {
		return err
	}
	defer end()
	if err := read(ctx); err != nil {
		return &shortener.UnavailableError{RetryAfter: visitsRetry, Err: err}
	}
	return nil
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
	asOf := a.counter.AsOf() // before the query, which then includes all visits until this time
	var series visits.Series
	err = a.readVisits(c, actor, func(ctx context.Context) (err error) {
		series, err = a.visits.Series(ctx, code, q.span, q.step)
		return err
	})
	if err != nil {
		return err
	}
	return a.sendVisits(c, newSeriesAnswer(code, series, q, asOf))
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
	var values visits.Values
	err = a.readVisits(c, actor, func(ctx context.Context) (err error) {
		values, err = a.visits.Facet(ctx, code, f, q.span, q.limit)
		return err
	})
	if err != nil {
		return err
	}
	return a.sendVisits(c, newFacetAnswer(values))
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
	var links []visits.Link
	err = a.readVisits(c, actor, func(ctx context.Context) (err error) {
		links, err = a.visits.Top(ctx, owner, q.span, q.limit)
		return err
	})
	if err != nil {
		return err
	}
	return a.sendVisits(c, newTopAnswer(links, asOf))
}

// sendVisits sends an answer as JSON or CSV.
func (a *API) sendVisits(c echo.Context, answer table) error {
	h := c.Response().Header()
	h.Set(echo.HeaderVary, echo.HeaderAccept)
	h.Set(echo.HeaderCacheControl, "no-store")
	if media.Negotiate(c.Request(), media.JSON, media.CSV) == media.CSV {
		return sendCSV(c, answer.lines())
	}
	return reply.JSON(c.Response(), media.JSON, http.StatusOK, answer)
}

// visitsRetry is the Retry-After of a query that failed or took too long.
const visitsRetry = time.Second
