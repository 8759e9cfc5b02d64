package api

import (
	"bytes"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"keypool/shortener"
	"keypool/web/internal/media"
)

// member is a member of a merge patch. It distinguishes an absent member from null.
type member[T any] struct {
	present, null bool
	value         T
}

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (m *member[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	m.present = true
	if dec.PeekKind() == 'n' {
		m.null = true
		return dec.SkipValue()
	}
	return json.UnmarshalDecode(dec, &m.value)
}

// or returns the value of the member. If the member is null, it returns cleared. If the member is absent, it returns
// nil.
func (m *member[T]) or(cleared T) *T {
	switch {
	case !m.present:
		return nil
	case m.null:
		return &cleared
	}
	return &m.value
}

// patch is the JSON object that a client sends to change a link.
type patch struct {
	URL       member[string]   `json:"url"`
	Title     member[string]   `json:"title"`
	Tags      member[[]string] `json:"tags"`
	ExpiresAt member[string]   `json:"expires_at"`
	Redirect  member[int]      `json:"redirect"`
	Forward   member[string]   `json:"forward"`
}

// readPatch reads the body of a PATCH request and checks its syntax.
func readPatch(w http.ResponseWriter, r *http.Request) (shortener.Patch, error) {
	if _, err := mediaType(r.Header, media.MergePatch, media.JSON); err != nil {
		w.Header().Set("Accept-Patch", media.MergePatch)
		return shortener.Patch{}, err
	}
	var body bytes.Buffer
	if err := readBody(&body, w, r); err != nil {
		return shortener.Patch{}, err
	}
	var p *patch // nil if the JSON text is null
	if err := decode(body.Bytes(), &p); err != nil {
		return shortener.Patch{}, err
	}
	if p == nil {
		return shortener.Patch{}, errNoObject()
	}
	return p.patch()
}

func (p *patch) patch() (shortener.Patch, error) {
	if p.URL.null {
		return shortener.Patch{}, &shortener.InvalidError{Field: "url", Reason: "must not be null, because a link always has a URL"}
	}
	if p.ExpiresAt.present && !p.ExpiresAt.null && p.ExpiresAt.value == "" {
		return shortener.Patch{}, &shortener.InvalidError{Field: "expires_at", Reason: "must be an RFC 3339 time such as 2030-12-31T23:59:59Z, or null"}
	}
	return shortener.Patch{
		URL:       p.URL.or(""),
		ExpiresAt: p.ExpiresAt.or(""),
		Title:     p.Title.or(""),
		Tags:      p.Tags.or(nil),
		Redirect:  p.Redirect.or(shortener.DefaultRedirect),
		Forward:   p.Forward.or(string(shortener.ForwardNone)),
	}, nil
}
