package api

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"keypool/shortener/visits"
	"keypool/web/internal/media"
	"keypool/web/internal/reply"
)

// table is an answer that can also be sent as CSV.
type table interface {
	lines() [][]string // the first line has the names of the columns
}

// counts is the JSON representation of a number of visits.
type counts struct {
	Human int64 `json:"human"`
	Bot   int64 `json:"bot"`
}

// line returns a line of CSV with a name and the number of visits of each class.
func (n counts) line(name string) []string {
	return []string{name, strconv.FormatInt(n.Human, 10), strconv.FormatInt(n.Bot, 10)}
}

// seriesAnswer is the JSON representation of the visits of a link.
type seriesAnswer struct {
	Code   string        `json:"code"`
	Total  counts        `json:"total"`
	Series []pointAnswer `json:"series"`
	AsOf   time.Time     `json:"as_of"`

	totalOnly bool
}

type pointAnswer struct {
	At time.Time `json:"at"`
	counts
}

func newSeriesAnswer(code string, s visits.Series, q seriesQuery, asOf time.Time) *seriesAnswer {
	a := &seriesAnswer{
		Code: code, Total: counts(q.selected(s.Total)), Series: []pointAnswer{},
		AsOf: asOf.Truncate(time.Microsecond), totalOnly: q.step == visits.All,
	}
	for _, point := range s.Points {
		if n := q.selected(point.Count); n.Sum() > 0 {
			a.Series = append(a.Series, pointAnswer{point.At, counts(n)})
		}
	}
	return a
}

func (a *seriesAnswer) lines() [][]string {
	lines := [][]string{{"at", "human", "bot"}}
	if a.totalOnly {
		return append(lines, a.Total.line(""))
	}
	for _, point := range a.Series {
		lines = append(lines, point.line(point.At.Format(time.RFC3339)))
	}
	return lines
}

// facetAnswer is the JSON representation of the values of a facet.
type facetAnswer struct {
	Items []valueAnswer `json:"items"`
	Other int64         `json:"other"`
}

type valueAnswer struct {
	Value string `json:"value"`
	counts
}

func newFacetAnswer(v visits.Values) *facetAnswer {
	a := &facetAnswer{Items: []valueAnswer{}, Other: v.Other}
	for _, item := range v.Items {
		a.Items = append(a.Items, valueAnswer{item.Value, counts(item.Count)})
	}
	return a
}

func (a *facetAnswer) lines() [][]string {
	lines := [][]string{{"value", "human", "bot"}}
	for _, item := range a.Items {
		lines = append(lines, item.line(item.Value))
	}
	return lines
}

// topAnswer is the JSON representation of the links with the most visits.
type topAnswer struct {
	Items []codeAnswer `json:"items"`
	AsOf  time.Time    `json:"as_of"`
}

type codeAnswer struct {
	Code string `json:"code"`
	counts
}

func newTopAnswer(links []visits.Link, asOf time.Time) *topAnswer {
	a := &topAnswer{Items: []codeAnswer{}, AsOf: asOf.Truncate(time.Microsecond)}
	for _, l := range links {
		a.Items = append(a.Items, codeAnswer{l.Code, counts(l.Count)})
	}
	return a
}

func (a *topAnswer) lines() [][]string {
	lines := [][]string{{"code", "human", "bot"}}
	for _, item := range a.Items {
		lines = append(lines, item.line(item.Code))
	}
	return lines
}

// sendCSV sends lines as CSV (RFC 4180).
func sendCSV(c echo.Context, lines [][]string) error {
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, media.CSV)
	h.Set(echo.HeaderXContentTypeOptions, "nosniff")
	c.Response().WriteHeader(http.StatusOK)
	if err := csv.NewWriter(c.Response()).WriteAll(lines); err != nil {
		return fmt.Errorf("%w: %w", reply.ErrNotSent, err)
	}
	return nil
}
