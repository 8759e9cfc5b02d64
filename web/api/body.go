package api

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/web/internal/media"
	"keypool/web/internal/problem"
)

// maxBody is the maximum size of a request body, in bytes. A URL has at most 2,048 bytes, and each
// byte takes up to three bytes in a form and up to six bytes in JSON. So a URL takes at most
// 6 x 2,048 = 12,288 bytes.
const maxBody = 16 << 10

// readFields reads the body of a request and checks its syntax. It sets each field for which the client sent a value.
// A null in JSON and an empty field of a form do not count as values. The service validates the values later. Package
// problem maps each error of readFields to a problem.
func (a *API) readFields(w http.ResponseWriter, r *http.Request) (shortener.Request, error) {
	sent, err := mediaType(r.Header, media.JSON, media.Form)
	if err != nil {
		return shortener.Request{}, err
	}
	body := a.buffers.get()
	defer a.buffers.put(body)
	if err := readBody(body, w, r); err != nil {
		return shortener.Request{}, err
	}
	if sent == media.Form {
		return parseForm(body.Bytes())
	}
	return parseJSON(body.Bytes())
}

// mediaType returns the media type of the body. It fails if the media type is not one of the accepted types. It also
// fails if the body has a content coding, or a charset other than UTF-8 and US-ASCII.
func mediaType(h http.Header, accepted ...string) (string, error) {
	refused := func(end string) (string, error) {
		return "", problem.Unsupported(slices.Clone(accepted), "Send "+strings.Join(accepted, " or ")+end)
	}
	if coding := h.Get(echo.HeaderContentEncoding); coding != "" && !strings.EqualFold(coding, "identity") {
		return refused(" without a content coding.")
	}
	value := h.Get(echo.HeaderContentType)
	if slices.Contains(accepted, value) {
		return value, nil
	}
	sent, params, err := mime.ParseMediaType(value)
	if err != nil || !slices.Contains(accepted, sent) {
		return refused(", and name the media type in the Content-Type header.")
	}
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "us-ascii":
		return sent, nil
	}
	return refused(" in UTF-8.")
}

// readBody reads at most maxBody bytes into buf. The request may have no Content-Length.
func readBody(buf *bytes.Buffer, w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength > maxBody {
		return &http.MaxBytesError{Limit: maxBody}
	}
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead) // ReadFrom needs MinRead free bytes at the end
	}
	if _, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return err
		}
		return problem.Malformed("The body ended before it was complete.")
	}
	return nil
}

// buffers holds buffers for the bodies of requests and answers, which are short. The zero value is ready for use.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() *bytes.Buffer {
	if buf, ok := b.pool.Get().(*bytes.Buffer); ok {
		buf.Reset()
		return buf
	}
	return new(bytes.Buffer)
}

// put takes back a buffer whose content is not in use any more.
func (b *buffers) put(buf *bytes.Buffer) { b.pool.Put(buf) }

// adviseEncoding explains the most frequent cause of an unknown field: a URL with parameters in the
// option -d of curl.
const adviseEncoding = ` If this name is a part of the URL, percent-encode the URL, because "&" separates the fields of a form. ` +
	`curl does this with --data-urlencode 'url=https://example.com/?a=1&b=2'.`

// parseForm parses a form. The URL may have any character encoding, because the service percent-encodes the bytes of
// a URL that are not ASCII, and does not decode them. Package shortener refuses a title or a tag that is not UTF-8.
func parseForm(body []byte) (shortener.Request, error) {
	if b := bytes.TrimSpace(body); len(b) > 0 && (b[0] == '{' || b[0] == '[') {
		return shortener.Request{}, problem.Malformed("The body looks like JSON but its Content-Type is a form. " +
			"Send it with Content-Type: " + media.JSON + ".")
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return shortener.Request{}, problem.Malformed("The body is a malformed form: " + err.Error() + ".")
	}
	var r shortener.Request
	var link, editable, redirect *string
	// Names are case-sensitive. Otherwise, the field "URL" could pass a filter in front of this service that checks only
	// the field "url".
	fields := map[string]**string{
		"url": &link, "alias": &r.Alias, "expires_at": &r.ExpiresAt, "expires_in": &r.ExpiresIn,
		"title": &r.Title, "editable": &editable, "redirect": &redirect, "forward": &r.Forward,
	}
	for name, given := range values {
		field, known := fields[name]
		switch {
		case name == "tags":
			if given = slices.DeleteFunc(given, func(tag string) bool { return tag == "" }); len(given) > 0 {
				r.Tags = given
			}
		case !known:
			return shortener.Request{}, problem.Malformed("There is no field " + problem.Quote(name) + "." + adviseEncoding)
		case len(given) > 1:
			return shortener.Request{}, problem.Malformed("The field " + problem.Quote(name) + " occurs twice.")
		case given[0] != "": // a browser also sends the empty fields of a form
			*field = &given[0]
		}
	}
	if link != nil {
		r.URL = *link
	}
	err = setOthers(&r, editable, redirect)
	return r, err
}

// setOthers sets the fields editable and redirect of a request, whose values are not strings.
func setOthers(r *shortener.Request, editable, redirect *string) error {
	if editable != nil {
		may, err := strconv.ParseBool(*editable)
		if err != nil {
			return &shortener.InvalidError{Field: "editable", Reason: expected("editable")}
		}
		r.Editable = &may
	}
	if redirect != nil {
		status, err := strconv.Atoi(*redirect)
		if err != nil {
			return &shortener.InvalidError{Field: "redirect", Reason: expected("redirect")}
		}
		r.Redirect = &status
	}
	return nil
}

// creation is the JSON object that a client sends to create a link. A member has its zero value if
// it is absent or null.
type creation struct {
	URL       string          `json:"url"`
	Alias     *string         `json:"alias"`
	ExpiresAt *string         `json:"expires_at"`
	ExpiresIn *numberOrString `json:"expires_in"`
	Title     *string         `json:"title"`
	Tags      []string        `json:"tags"`
	Editable  *bool           `json:"editable"`
	Redirect  *int            `json:"redirect"`
	Forward   *string         `json:"forward"`
}

// numberOrString is a JSON string, or the text of a JSON number.
type numberOrString string

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (n *numberOrString) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if kind := dec.PeekKind(); kind != '"' && kind != '0' {
		return errors.New("neither a number nor a string")
	}
	token, err := dec.ReadToken()
	if err != nil {
		return err
	}
	*n = numberOrString(token.String())
	return nil
}

// maxNesting is the maximum depth of the arrays and objects of a body. The decoder is recursive. For 16 KiB of nested
// arrays, the stack of its goroutine would grow to megabytes, which only a garbage collection returns.
const maxNesting = 16

// decode decodes a body, or a line of a body, that is one JSON object or null. It refuses text that two parsers could
// understand differently: repeated or unknown members, names in another letter case, invalid UTF-8 and unpaired
// surrogates. The decoder, from the experimental package that became encoding/json/v2, is strict by default, and about
// as fast as a hand-written parser (see BenchmarkParseJSON).
func decode(body []byte, object any) error {
	if tooDeep(body) {
		return problem.Malformed(fmt.Sprintf("The body has more than %d nested arrays or objects.", maxNesting))
	}
	if err := json.Unmarshal(body, object, json.RejectUnknownMembers(true)); err != nil {
		return objectError(body, err)
	}
	return nil
}

// tooDeep reports whether body has more than maxNesting nested arrays and objects. It reads tokens only if body has more
// than maxNesting opening brackets.
func tooDeep(body []byte) bool {
	if bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) <= maxNesting {
		return false
	}
	// ReadToken is not recursive. A repeated name must not end the check: objectError decodes a body with repeated
	// names too, and its decoder is recursive.
	tokens := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))
	for tokens.StackDepth() <= maxNesting {
		if _, err := tokens.ReadToken(); err != nil {
			return false // the end, or a syntax error before the depth is reached
		}
	}
	return true
}

// parseJSON parses the JSON object of a creation.
func parseJSON(body []byte) (shortener.Request, error) {
	var c *creation // nil if the JSON text is null
	if err := decode(body, &c); err != nil {
		return shortener.Request{}, err
	}
	if c == nil {
		return shortener.Request{}, errNoObject()
	}
	return c.request(), nil
}

func (c *creation) request() shortener.Request {
	return shortener.Request{
		URL: c.URL, Alias: c.Alias, ExpiresAt: c.ExpiresAt, ExpiresIn: (*string)(c.ExpiresIn),
		Title: c.Title, Tags: c.Tags, Editable: c.Editable, Redirect: c.Redirect, Forward: c.Forward,
	}
}

func errNoObject() error { return problem.Malformed("The body is not a JSON object.") }

// objectError translates err, the error from decoding body. If body is not well-formed JSON,
// objectError reports the syntax error, even if an earlier member is invalid.
func objectError(body []byte, err error) error {
	var text jsontext.Value
	if fault := json.Unmarshal(body, &text, jsontext.AllowDuplicateNames(true)); fault != nil {
		return problem.Malformed("The body is not well-formed JSON: " + describe(fault) + ".")
	}
	// The JSON is well-formed here, so the only possible cause of a syntactic error is a repeated name.
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return problem.Malformed("The member " + problem.Quote(syntactic.JSONPointer.LastToken()) + " occurs twice.")
	}
	semantic, ok := errors.AsType[*json.SemanticError](err)
	switch {
	case !ok || semantic.JSONPointer == "":
		return errNoObject()
	case errors.Is(err, json.ErrUnknownName):
		return problem.Malformed("There is no member " + problem.Quote(semantic.JSONPointer.LastToken()) + ".")
	}
	field := semantic.JSONPointer.LastToken()
	// The first token is the name of the member, even if the error is in an element of the member.
	for first := range semantic.JSONPointer.Tokens() {
		field = first
		break
	}
	return &shortener.InvalidError{Field: field, Reason: expected(field)}
}

// expected describes the valid values of a member, for an error text.
func expected(field string) string {
	switch field {
	case "expires_in":
		return `must be a number of seconds or a duration such as "36h"`
	case "tags":
		return "must be an array of strings"
	case "editable":
		return "must be true or false"
	case "redirect":
		return "must be 301, 302, 307 or 308"
	}
	return "must be a string"
}

// describe returns the text and the position of a syntax error. It omits the JSON path of
// the error because the length of the path depends on the request.
func describe(fault error) string {
	syntactic, ok := errors.AsType[*jsontext.SyntacticError](fault)
	if !ok {
		return fault.Error()
	}
	return fmt.Sprintf("%v after byte %d", syntactic.Err, syntactic.ByteOffset)
}
