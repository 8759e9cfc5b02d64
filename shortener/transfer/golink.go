package transfer

import (
	"strings"
	"time"

	"keypool/shortener"
)

// golinkRecord is a line of the export of golink, which serves it at /.export. Only old releases of golink write Clicks.
type golinkRecord struct {
	Short    string
	Long     string
	Created  time.Time
	LastEdit time.Time
	Owner    string
	Clicks   int64
}

// parseGolink parses a line of an export of golink. golink appends the rest of the path and the query of a request to
// the URL, so the link forwards both. The owner of a golink may change its URL, so the link is editable if it has an owner.
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

// golinkName returns the name that golink has for a member of a record.
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
