package transfer

import (
	"strings"
	"time"

	"keypool/shortener"
)

// golinkRecord is a line of an export of golink. A golink server serves its export at /.export. Only old releases of
// golink write Clicks.
type golinkRecord struct {
	Short    string
	Long     string
	Created  time.Time
	LastEdit time.Time
	Owner    string
	Clicks   int64
}

// parseGolink parses a line of an export of golink. The imported links behave as they do in golink. A redirect appends
// the rest of the path and the query of the request to the URL. The owner may change the URL.
func parseGolink(text []byte) (Record, error) {
	var g golinkRecord
	if err := decode(text, &g); err != nil {
		return Record{Code: g.Short}, err
	}
	r := newRecord()
	r.Code, r.URL, r.CreatedAt, r.Owner, r.Editable = g.Short, g.Long, g.Created, g.Owner, g.Owner != ""
	r.Forward, r.Visits.Human = shortener.ForwardQueryAndPath, g.Clicks
	if g.LastEdit.After(g.Created) {
		r.Version, r.ChangedAt = 2, g.LastEdit
	}
	if strings.Contains(g.Long, "{{") {
		return r, &shortener.InvalidError{Field: "Long", Reason: "must be a URL without a template, that is, without {{"}
	}
	if !isCount(g.Clicks) {
		return r, &shortener.InvalidError{Field: "Clicks", Reason: takesCount}
	}
	return r, nil
}

// golinkName returns the name of a member of a record in an export of golink.
func golinkName(member string) string {
	switch member {
	case "code":
		return "Short"
	case "url":
		return "Long"
	case "created_at":
		return "Created"
	case "changed_at":
		return "LastEdit"
	case "owner":
		return "Owner"
	}
	return member
}
