package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/web/internal/media"
	"keypool/web/internal/reply"
)

// Link is the JSON representation of a link for a client without a token. It lacks the members that only the
// owner may read.
type Link struct {
	Code      string            `json:"code"`
	ShortURL  string            `json:"short_url"`
	URL       string            `json:"url"`
	CreatedAt time.Time         `json:"created_at"`
	ExpiresAt time.Time         `json:"expires_at,omitzero"`
	Editable  bool              `json:"editable"`
	Version   int64             `json:"version"`
	Redirect  int               `json:"redirect"`
	Forward   shortener.Forward `json:"forward"`
}

// NewLink returns the representation of l. The parameter self is the origin of the short URL.
func NewLink(l shortener.Link, self destination.Origin) *Link {
	return &Link{
		Code:      l.Code,
		ShortURL:  self.String() + "/" + l.Code,
		URL:       l.URL,
		CreatedAt: l.CreatedAt.UTC(),
		ExpiresAt: l.ExpiresAt.UTC(),
		Editable:  l.Editable(),
		Version:   l.Version(),
		Redirect:  l.Redirect(),
		Forward:   l.Forward(),
	}
}

// Prefix returns the short URL without its code.
func (l *Link) Prefix() string { return strings.TrimSuffix(l.ShortURL, l.Code) }

// appendJSON appends the link as encoding/json would encode it, with a line break and without the
// escapes for HTML. It is faster than encoding/json, because it uses no reflection.
func (l *Link) appendJSON(b []byte) ([]byte, error) {
	b, err := l.appendMembers(b)
	return append(b, "}\n"...), err
}

// appendMembers appends the link without the closing brace of the object.
func (l *Link) appendMembers(b []byte) ([]byte, error) {
	b = reply.AppendString(append(b, `{"code":`...), l.Code)
	b = reply.AppendString(append(b, `,"short_url":`...), l.ShortURL)
	b = reply.AppendString(append(b, `,"url":`...), l.URL)
	b, err := appendTime(append(b, `,"created_at":`...), l.CreatedAt)
	if err == nil && !l.ExpiresAt.IsZero() {
		b, err = appendTime(append(b, `,"expires_at":`...), l.ExpiresAt)
	}
	b = strconv.AppendBool(append(b, `,"editable":`...), l.Editable)
	b = strconv.AppendInt(append(b, `,"version":`...), l.Version, 10)
	b = strconv.AppendInt(append(b, `,"redirect":`...), int64(l.Redirect), 10)
	return reply.AppendString(append(b, `,"forward":`...), string(l.Forward)), err
}

func appendTime(b []byte, t time.Time) ([]byte, error) {
	b, err := t.AppendText(append(b, '"'))
	return append(b, '"'), err
}

// send sends a link as JSON.
func (a *API) send(w http.ResponseWriter, status int, l interface {
	appendJSON(b []byte) ([]byte, error)
},
) error {
	const most = 1024 // only an answer with a long URL or many tags has more bytes
	buf := a.buffers.get()
	defer a.buffers.put(buf)
	buf.Grow(most)
	body, err := l.appendJSON(buf.AvailableBuffer())
	if err != nil {
		return err
	}
	return reply.Encoded(w, media.JSON, status, body)
}

// ownedLink is the JSON representation of a link for its owner.
type ownedLink struct {
	Link
	Title     string    `json:"title,omitempty"`
	Tags      []string  `json:"tags,omitempty"`
	Owner     string    `json:"owner,omitempty"` // name of the token to which the link belongs
	ChangedAt time.Time `json:"changed_at,omitzero"`
	DeletedAt time.Time `json:"deleted_at,omitzero"`
}

func (l *ownedLink) appendJSON(b []byte) ([]byte, error) {
	b, err := l.appendMembers(b)
	if l.Title != "" {
		b = reply.AppendString(append(b, `,"title":`...), l.Title)
	}
	for i, tag := range l.Tags {
		separator := `,`
		if i == 0 {
			separator = `,"tags":[`
		}
		b = reply.AppendString(append(b, separator...), tag)
	}
	if len(l.Tags) > 0 {
		b = append(b, ']')
	}
	if l.Owner != "" {
		b = reply.AppendString(append(b, `,"owner":`...), l.Owner)
	}
	if err == nil && !l.ChangedAt.IsZero() {
		b, err = appendTime(append(b, `,"changed_at":`...), l.ChangedAt)
	}
	if err == nil && !l.DeletedAt.IsZero() {
		b, err = appendTime(append(b, `,"deleted_at":`...), l.DeletedAt)
	}
	return append(b, "}\n"...), err
}

func (a *API) ownedLink(l shortener.Link, self destination.Origin) *ownedLink {
	owned := &ownedLink{Link: *NewLink(l, self), DeletedAt: l.DeletedAt}
	if d := l.Details; d != nil {
		owned.Title, owned.Tags, owned.ChangedAt = d.Title, d.Tags, d.ChangedAt
	}
	if owner := l.Owner(); owner != 0 {
		owned.Owner = a.tokens.Name(owner)
	}
	return owned
}
