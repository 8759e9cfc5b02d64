package api

import (
	"net/http"

	"keypool/shortener/visits"
	"keypool/web/internal/parameters"
	"keypool/web/internal/problem"
)

const (
	maxTop     = 1000 // the greatest value of the parameter "limit"
	defaultTop = 100
)

// seriesQuery holds the parameters of a request for the visits of a link.
type seriesQuery struct {
	span  visits.Range
	step  visits.Step
	class string // human, bot or all
}

// readSeriesQuery reads the parameters of GET /api/links/{code}/visits.
func readSeriesQuery(r *http.Request) (q seriesQuery, err error) {
	q = seriesQuery{step: visits.Day, class: "all"}
	err = parameters.Read(r.URL.RawQuery, q.set)
	if err == nil {
		err = checkSpan(q.span)
	}
	return q, err
}

func (q *seriesQuery) set(name, value string) error {
	switch name {
	case "by":
		steps := map[string]visits.Step{"hour": visits.Hour, "day": visits.Day, "total": visits.All}
		step, ok := steps[value]
		if !ok {
			return problem.Malformed("The parameter by must be hour, day or total.")
		}
		q.step = step
	case "class":
		if value != "human" && value != "bot" && value != "all" {
			return problem.Malformed("The parameter class must be human, bot or all.")
		}
		q.class = value
	case "from", "to":
		return setSpan(&q.span, name, value)
	default:
		return parameters.Unknown(name, "Visits have the parameters from, to, by and class.")
	}
	return nil
}

// selected returns the visits of the class that the client asked for. If the client asked for one class,
// the number of the other class is 0.
func (q *seriesQuery) selected(n visits.Count) visits.Count {
	switch q.class {
	case "human":
		n.Bot = 0
	case "bot":
		n.Human = 0
	}
	return n
}

// topQuery holds the parameters of a request for the values of a facet, or for the links with the
// most visits.
type topQuery struct {
	span  visits.Range
	limit int
}

// readTopQuery reads the parameters "from", "to" and "limit".
func readTopQuery(r *http.Request) (q topQuery, err error) {
	q = topQuery{limit: defaultTop}
	err = parameters.Read(r.URL.RawQuery, q.set)
	if err == nil {
		err = checkSpan(q.span)
	}
	return q, err
}

func (q *topQuery) set(name, value string) (err error) {
	switch name {
	case "limit":
		q.limit, err = parameters.Int(name, value, 1, maxTop)
	case "from", "to":
		err = setSpan(&q.span, name, value)
	default:
		err = parameters.Unknown(name, "This list has the parameters from, to and limit.")
	}
	return err
}

// setSpan sets the beginning or the end of a range.
func setSpan(span *visits.Range, name, value string) error {
	t, err := parameters.Time(name, value)
	if name == "from" {
		span.From = t
	} else {
		span.To = t
	}
	return err
}

func checkSpan(span visits.Range) error {
	if !span.From.IsZero() && !span.To.IsZero() && !span.From.Before(span.To) {
		return problem.Malformed("The parameter from must be before the parameter to.")
	}
	return nil
}
