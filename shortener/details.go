package shortener

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Details are additional members of a link. A link has Details if it has an owner, if it was changed, or
// if an import gave it some of these members. Details are immutable: a change of a link replaces them.
// Their JSON encoding is the column details in the database.
type Details struct {
	Owner        int64     `json:"owner,omitzero"`          // id of the token to which the link belongs; 0 for an anonymous link
	Title        string    `json:"title,omitzero"`          // at most 200 characters
	Tags         []string  `json:"tags,omitempty"`          // at most 16 tags of at most 32 characters
	Editable     bool      `json:"editable,omitzero"`       // whether the URL may change
	Version      int64     `json:"version"`                 // 1 after the creation; each change adds 1
	ChangedAt    time.Time `json:"changed_at,omitzero"`     // time of the last change
	Redirect     int       `json:"redirect,omitzero"`       // HTTP status of a redirect; 0 means DefaultRedirect
	Forward      Forward   `json:"forward,omitzero"`        // the part of the URL of a request that is forwarded; "" means ForwardNone
	FirstURL     string    `json:"first_url,omitzero"`      // the URL at the creation, if the URL was changed
	URLChangedAt time.Time `json:"url_changed_at,omitzero"` // time of the last change of the URL; older releases did not store it
}

// DefaultRedirect is the HTTP status of a redirect if the link does not choose another one.
const DefaultRedirect = 302

// Forward says which part of the requested URL a redirect appends to the URL of the link.
type Forward string

// The values of a Forward.
const (
	ForwardNone         Forward = "none"
	ForwardQuery        Forward = "query"
	ForwardQueryAndPath Forward = "query+path"
)

// Text returns the details as JSON that every engine can store. The result is nil for nil details. Characters that are not
// ASCII are in UTF-8 and not in escape sequences such as \u2028, because PostgreSQL refuses these sequences in a database
// with the encoding SQL_ASCII.
func (d *Details) Text() *string {
	if d == nil {
		return nil
	}
	b, err := json.Marshal(d, jsontext.AllowInvalidUTF8(true))
	if err != nil { // cannot happen, because JSON can encode every member
		panic("shortener: encode the details of a link: " + err.Error())
	}
	return new(string(b))
}

// ParseDetails is the inverse of Details.Text.
func ParseDetails(text *string) (*Details, error) {
	if text == nil {
		return nil, nil //nolint:nilnil // NULL in the database
	}
	var d Details
	if err := json.Unmarshal([]byte(*text), &d, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDetails, err)
	}
	return &d, nil
}

// equalDetails reports whether two links have the same details.
func equalDetails(a, b *Details) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a.Text() == *b.Text()
}

// Version returns the number of the state of the link. It is 1 after the creation, and each change adds 1.
func (l *Link) Version() int64 {
	if l.Details == nil {
		return 1
	}
	return l.Details.Version
}

// Owner returns the id of the token to which the link belongs, or 0 for an anonymous link.
func (l *Link) Owner() int64 {
	if l.Details == nil {
		return 0
	}
	return l.Details.Owner
}

// Editable reports whether the URL of the link may change.
func (l *Link) Editable() bool { return l.Details != nil && l.Details.Editable }

// URLChangedAt returns the time of the last change of the URL, or the zero time if the URL never changed. If an older release of
// Keypool changed the URL, the result may be later than that change.
func (l *Link) URLChangedAt() time.Time {
	switch d := l.Details; {
	case d == nil:
		return time.Time{}
	case d.URLChangedAt.IsZero() && d.FirstURL != "":
		return d.ChangedAt
	default:
		return d.URLChangedAt
	}
}

// Redirect returns the HTTP status of a redirect to the URL of the link.
func (l *Link) Redirect() int {
	if l.Details == nil || l.Details.Redirect == 0 {
		return DefaultRedirect
	}
	return l.Details.Redirect
}

// Forward returns which part of the requested URL a redirect appends to the URL of the link.
func (l *Link) Forward() Forward {
	if l.Details == nil || l.Details.Forward == "" {
		return ForwardNone
	}
	return l.Details.Forward
}

// Title returns the title of the link, or "" if it has none.
func (l *Link) Title() string {
	if l.Details == nil {
		return ""
	}
	return l.Details.Title
}
