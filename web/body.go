package web

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"keypool/shortener"

	"github.com/labstack/echo/v4"
)

// maxBody bounds the body of a creation, in bytes. A URL has at most 2,048 bytes, each
// of which takes up to three in a form and up to six in JSON.
const maxBody = 16 << 10

// fields are the fields of a creation as the client sent them; nil means not given.
type fields struct {
	url, alias, expiresAt, expiresIn *string
}

// member returns the field called name, or nil if there is none. Names are
// case-sensitive, because another reader of the form might ignore a "URL".
func (f *fields) member(name string) **string {
	switch name {
	case "url":
		return &f.url
	case "alias":
		return &f.alias
	case "expires_at":
		return &f.expiresAt
	case "expires_in":
		return &f.expiresIn
	}
	return nil
}

func (f *fields) request(self shortener.Origin) shortener.Request {
	r := shortener.Request{Alias: f.alias, ExpiresAt: f.expiresAt, ExpiresIn: f.expiresIn, Self: self}
	if f.url != nil {
		r.URL = *f.url
	}
	return r
}

// readFields reads the body of a creation and checks its form. The service validates the
// values. Its errors are in the table of problems.
func readFields(w http.ResponseWriter, r *http.Request) (fields, error) {
	media, err := mediaType(r.Header)
	if err != nil {
		return fields{}, err
	}
	body, err := readBody(w, r)
	if err != nil {
		return fields{}, err
	}
	if media == mediaForm {
		return parseForm(body)
	}
	return parseJSON(body)
}

// mediaType returns the media type of the body, one of the two that are supported.
func mediaType(h http.Header) (string, error) {
	const accepted = "Send " + mediaJSON + " or " + mediaForm
	if coding := h.Get(echo.HeaderContentEncoding); coding != "" && !strings.EqualFold(coding, "identity") {
		return "", unsupported(accepted + " without a content coding.")
	}
	value := h.Get(echo.HeaderContentType)
	if value == mediaJSON || value == mediaForm {
		return value, nil
	}
	media, params, err := mime.ParseMediaType(value)
	if err != nil || (media != mediaJSON && media != mediaForm) {
		return "", unsupported(accepted + ", and name it in the Content-Type header.")
	}
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "us-ascii":
		return media, nil
	}
	return "", unsupported(accepted + " in UTF-8.")
}

// readBody reads at most maxBody bytes, with or without a Content-Length.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, &http.MaxBytesError{Limit: maxBody}
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead) // ReadFrom needs MinRead bytes of space at the end
	}
	if _, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, err
		}
		return nil, malformed("The body ended before it was complete.")
	}
	return buf.Bytes(), nil
}

// parseForm parses a form. Its values may have any character encoding: the service
// stores the bytes of a URL unchanged.
func parseForm(body []byte) (fields, error) {
	if b := bytes.TrimSpace(body); len(b) > 0 && (b[0] == '{' || b[0] == '[') {
		return fields{}, malformed("The body looks like JSON but its Content-Type is a form. " +
			"Send it with Content-Type: " + mediaJSON + ".")
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return fields{}, malformed("The body is a malformed form: " + err.Error() + ".")
	}
	var f fields
	for name, given := range values {
		place := f.member(name)
		switch {
		case place == nil:
			return fields{}, malformed("There is no field " + quote(name) + ".")
		case len(given) > 1:
			return fields{}, malformed("The field " + quote(name) + " occurs twice.")
		case given[0] != "": // a browser sends every field of a form, also an empty one
			*place = &given[0]
		}
	}
	return f, nil
}

// quote returns a name that the client chose, in quotes and shortened, so that the length
// of an answer does not depend on the request.
func quote(name string) string {
	const enough = 40
	if runes := []rune(name); len(runes) > enough {
		name = string(runes[:enough]) + "..."
	}
	return `"` + name + `"`
}
