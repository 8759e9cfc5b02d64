package ui

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/shortener/token"
	"keypool/web/internal/reply"
)

// values are the values of the fields of a form, by the names of the JSON members in the API.
type values map[string]string

// editable returns the names of the fields of a link that may change.
func editable() []string {
	return []string{"url", "title", "tags", "expires_at", "redirect", "forward"}
}

// readValues reads fields of a form. It removes white space at both ends of a value. It replaces CRLF, which browsers
// send for a line break, by LF. The typed expiry comes from a visible field, and browsers may change its format. The seen
// expiry comes from a hidden field, and browsers do not change its format. Therefore readValues formats both as valuesOf
// does, so that they can be compared.
func readValues(form url.Values, prefix string, names ...string) values {
	v := values{}
	for _, name := range names {
		v[name] = strings.TrimSpace(strings.ReplaceAll(form.Get(prefix+name), "\r\n", "\n"))
	}
	if t, ok := v.expiry(); ok {
		v["expires_at"] = formatLocal(t)
	}
	return v
}

// valuesOf returns the stored values of a link. The expiry has no fraction of a second.
func valuesOf(l *shortener.Link) values {
	v := values{"url": l.URL, "title": l.Title(), "redirect": strconv.Itoa(l.Redirect()), "forward": string(l.Forward()), "tags": "", "expires_at": ""}
	if l.Details != nil {
		v["tags"] = strings.Join(l.Details.Tags, "\n")
	}
	if !l.ExpiresAt.IsZero() {
		v["expires_at"] = formatLocal(l.ExpiresAt)
	}
	return v
}

// tags returns the lines of the field tags that are not blank.
func (v values) tags() []string {
	return slices.DeleteFunc(strings.Split(v["tags"], "\n"), func(tag string) bool { return strings.TrimSpace(tag) == "" })
}

// Formats of a field of the type datetime-local. The time is in UTC.
const (
	localTime   = "2006-01-02T15:04:05"
	localMinute = "2006-01-02T15:04"
)

// formatLocal formats a time as browsers do: it omits the seconds if they are 0.
func formatLocal(t time.Time) string {
	if t.Second() == 0 {
		return t.UTC().Format(localMinute)
	}
	return t.UTC().Format(localTime)
}

// expiry returns the field expires_at. If the field does not have a format of a browser, ok is false.
func (v values) expiry() (t time.Time, ok bool) {
	for _, format := range []string{localTime, localMinute} {
		if t, err := time.Parse(format, v["expires_at"]); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// expiryText returns the field expires_at in RFC 3339 if it has a format of a browser, and otherwise unchanged.
func (v values) expiryText() string {
	if t, ok := v.expiry(); ok {
		return t.Format(time.RFC3339)
	}
	return v["expires_at"]
}

// redirect returns the field redirect. A value that is not a number becomes 0, which the service refuses.
func (v values) redirect() int {
	n, err := strconv.Atoi(v["redirect"])
	if err != nil {
		return 0
	}
	return n
}

// patch returns the change of the fields whose typed value differs from the seen value. A field that only another
// request changed keeps its stored value.
func (v values) patch(seen values) shortener.Patch {
	var p shortener.Patch
	for name, value := range v {
		if value == seen[name] {
			continue
		}
		switch name {
		case "url":
			p.URL = &value
		case "title":
			p.Title = &value
		case "tags":
			p.Tags = new(v.tags())
		case "expires_at":
			p.ExpiresAt = new(v.expiryText())
		case "redirect":
			p.Redirect = new(v.redirect())
		case "forward":
			p.Forward = &value
		}
	}
	return p
}

// merge returns the values of a form whose link has changed since the server sent the form. shown has the typed
// values of the fields that the person changed, and the stored values of the other fields. The person and another
// request may have changed a field to different values. others has the stored value of each such field.
func merge(typed, seen, stored values) (shown, others values) {
	shown, others = maps.Clone(stored), values{}
	for name, value := range typed {
		if value == seen[name] {
			continue
		}
		shown[name] = value
		if stored[name] != seen[name] && stored[name] != value {
			others[name] = stored[name]
		}
	}
	return shown, others
}

// choice is an option of a field.
type choice struct{ Value, Label string }

// form is the data of a form that creates or changes a link.
type form struct {
	Values    values
	Seen      values         // of a change: the seen values
	Others    values         // of a change: see merge
	Version   int64          // of a change: the version of the link to which the seen values belong
	Fixed     bool           // of a change: whether the URL cannot change
	Problem   *reply.Problem // why the form was refused
	Completed bool           // the page added the scheme of the URL, and the person has not confirmed it yet
	Host      string         // precedes the alias
	Editable  bool
	Owner     string        // id of the chosen token, or ""
	Owners    []token.Token // of a creation on the admin listener: who may own the link
	Operator  bool
	Key       string // of a creation: the idempotency key
	For       string // of a creation: the id of the token of the person to whom the server sent the form
}

// Redirects returns the choices of the field redirect.
func (*form) Redirects() []choice {
	return []choice{
		{"302", "302: temporary (usual)"}, {"301", "301: permanent"},
		{"307", "307: temporary, same method"}, {"308", "308: permanent, same method"},
	}
}

// Forwards returns the choices of the field forward.
func (*form) Forwards() []choice {
	return []choice{
		{string(shortener.ForwardNone), "Nothing"}, {string(shortener.ForwardQuery), "The query of the visitor"},
		{string(shortener.ForwardQueryAndPath), "The query and the path of the visitor"},
	}
}

// labels returns the name of each field for people. In the error of a field, this name replaces the name of the JSON
// member.
func labels() map[string]string {
	return map[string]string{
		"url": "The destination", "alias": "The alias", "title": "The title", "tags": "Tags", "expires_at": "The expiry",
		"redirect": "The status", "forward": "The choice of what to append", "owner": "The owner",
	}
}

// Wrong returns the error of a field, or "" if the field has no error. If the page added the scheme of the URL, it asks the
// person to confirm the URL, and the field url has no error. Wrong("") returns an error that concerns no field.
func (f *form) Wrong(field string) string {
	if f.Problem == nil || (field == "url" && f.Completed) {
		return ""
	}
	at := f.Problem.Field
	label, known := labels()[at]
	if !known || at == "url" && f.Fixed { // the form has no such field
		at, label = "", ""
	}
	if at != field {
		return ""
	}
	return f.Problem.Labelled(label)
}

// complete adds the scheme to a refused URL that lacks only the scheme. The person must confirm the new URL.
func (f *form) complete(self destination.Origin) {
	if f.Problem == nil || f.Problem.Field != "url" {
		return
	}
	if url, ok := destination.WithScheme(f.Values["url"], self); ok {
		f.Values["url"], f.Completed = url, true
	}
}

// Differs reports whether the person and another request changed the field to different values. An empty stored value
// also differs from a typed value.
func (f *form) Differs(field string) bool {
	_, differs := f.Others[field]
	return differs
}

// Other returns a text with the stored value of a field for which Differs is true, and otherwise "".
func (f *form) Other(field string) string {
	if !f.Differs(field) {
		return ""
	}
	switch stored := f.Others[field]; {
	case stored == "":
		return "Stored now: nothing"
	case field == "expires_at":
		return "Stored now: " + strings.Replace(stored, "T", " ", 1)
	default:
		return "Stored now: " + strings.ReplaceAll(stored, "\n", ", ")
	}
}

// DescribedBy returns the ids of the texts about the value of a field: its error, an offer and the stored value. The ids are
// separated by spaces.
func (f *form) DescribedBy(field string) string {
	var ids []string
	if f.Wrong(field) != "" {
		ids = append(ids, field+"-error")
	}
	if field == "url" && f.Completed || field == "alias" && f.Problem != nil && len(f.Problem.Suggestions) > 0 {
		ids = append(ids, field+"-offer")
	}
	if f.Differs(field) {
		ids = append(ids, field+"-other")
	}
	return strings.Join(ids, " ")
}

// OpensRedirect reports whether the form must open its section about the redirect. It must open the section if a field of
// the section differs from the default or has an error, or if Differs is true for the field.
func (f *form) OpensRedirect() bool {
	return f.Values["redirect"] != "302" || f.Values["forward"] != string(shortener.ForwardNone) ||
		f.Wrong("redirect") != "" || f.Wrong("forward") != "" || f.Differs("redirect") || f.Differs("forward")
}
