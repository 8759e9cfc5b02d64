package web

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"keypool/shortener"
)

// defaultList is the number of links in a page, if the client does not choose one.
const defaultList = 100

// listQuery is what a client asks of a list.
type listQuery struct {
	filter shortener.Filter
	cursor string
	limit  int
	paged  bool // whether the client sent limit or cursor
}

// readListQuery reads the parameters of GET /api/links.
func readListQuery(r *http.Request) (q listQuery, err error) {
	q = listQuery{limit: defaultList, filter: shortener.Filter{State: shortener.StateActive}}
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, malformed("The query of the URL is malformed: " + err.Error() + ".")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if len(given[name]) > 1 {
			return q, malformed("The parameter " + quote(name) + " occurs twice.")
		}
		switch value := given[name][0]; name {
		case "q":
			q.filter.Text = value
		case "tag":
			q.filter.Tag = value
		case "host":
			q.filter.Host = value
		case "state":
			q.filter.State = shortener.State(value)
			if !slices.Contains(shortener.States(), q.filter.State) {
				return q, malformed("The parameter state must be active, expired, deleted or all.")
			}
		case "limit":
			q.paged = true
			if q.limit, err = strconv.Atoi(value); err != nil || q.limit < 1 || q.limit > shortener.MaxList {
				return q, malformed(fmt.Sprintf("The parameter limit must be a number from 1 to %d.", shortener.MaxList))
			}
		case "cursor":
			q.paged = true
			q.cursor = value
		default:
			return q, malformed("There is no parameter " + quote(name) + ".")
		}
	}
	return q, nil
}
