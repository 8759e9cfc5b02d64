package api

import (
	"net/http"
	"slices"

	"keypool/shortener/destination"
	"keypool/shortener/service"
	"keypool/web/internal/parameters"
	"keypool/web/internal/problem"
)

// defaultList is the number of links in a page if the client does not send the parameter limit.
const defaultList = 100

// listQuery holds the parameters of a request for a list of links.
type listQuery struct {
	filter service.Filter
	cursor string
	limit  int
	paged  bool // whether the client sent limit or cursor
}

// readListQuery reads the parameters of GET /api/links.
func readListQuery(r *http.Request) (q listQuery, err error) {
	q = listQuery{limit: defaultList, filter: service.Filter{State: service.StateActive}}
	err = parameters.Read(r.URL.RawQuery, q.set)
	return q, err
}

func (q *listQuery) set(name, value string) (err error) {
	switch name {
	case "q":
		q.filter.Text = value
	case "tag":
		q.filter.Tag = value
	case "host":
		if _, ok := destination.ParseHost(value); !ok && value != "" {
			return problem.Malformed("The parameter host must be a host such as go.dev, without a scheme and a port.")
		}
		q.filter.Host = value
	case "state":
		q.filter.State = service.State(value)
		if !slices.Contains(service.States(), q.filter.State) {
			return problem.Malformed("The parameter state must be active, expired, deleted or all.")
		}
	case "limit":
		q.paged = true
		q.limit, err = parameters.Int(name, value, 1, service.MaxList)
	case "cursor":
		q.paged = true
		q.cursor = value
	default:
		return parameters.Unknown(name, "A list has the parameters limit, cursor, q, tag, host and state.")
	}
	return err
}
