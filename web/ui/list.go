package ui

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/shortener/service"
	"keypool/web/internal/reply"
)

// pageSize is the number of links on a page of the list.
const pageSize = 50

// list is a page of links.
type list struct {
	filter
	Links []row
	Next  string // cursor of the older links, or "" if there are none
}

// filter holds the parameters of the list. The parameters are in the address of the page.
type filter struct {
	Text, Tag, Host string
	State           service.State
	Cursor          string
	base            string
}

func (u *UI) filterOf(q url.Values) filter {
	f := filter{
		Text: strings.TrimSpace(q.Get("q")), Tag: strings.TrimSpace(q.Get("tag")), Host: strings.TrimSpace(q.Get("host")),
		State: service.State(q.Get("state")), Cursor: q.Get("cursor"), base: u.Base,
	}
	if f.State == "" {
		f.State = service.StateActive
	}
	return f
}

// States returns the choices of the field state.
func (filter) States() []choice {
	return []choice{
		{string(service.StateActive), "Active"}, {string(service.StateExpired), "Expired"},
		{string(service.StateDeleted), "Deleted"}, {string(service.StateAll), "All"},
	}
}

// Empty reports whether the filter selects every active link.
func (f filter) Empty() bool {
	return f.Text == "" && f.Tag == "" && f.Host == "" && f.State == service.StateActive
}

// Narrow reports whether the filter has a tag, a host, or a state other than active.
func (f filter) Narrow() bool {
	return f.Tag != "" || f.Host != "" || f.State != service.StateActive
}

// At returns the address of the page of the list that begins at a cursor, with this filter. If cursor is "", the page
// begins with the newest link.
func (f filter) At(cursor string) string {
	q := url.Values{}
	for name, value := range map[string]string{"q": f.Text, "tag": f.Tag, "host": f.Host, "cursor": cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.State != service.StateActive {
		q.Set("state", string(f.State))
	}
	if len(q) == 0 {
		return f.base + "/"
	}
	return f.base + "/?" + q.Encode()
}

// maxSuffix is the maximum length of a suffix, in bytes. The list repeats its suffix in the address of each link.
const maxSuffix = 1024

// Suffix returns the part of an address that names this page of the list: "?list=" and the parameters of the page. It returns ""
// for the first page of all active links, and if the suffix would be longer than maxSuffix.
func (f filter) Suffix() string {
	_, parameters, found := strings.Cut(f.At(f.Cursor), "?")
	suffix := "?" + url.Values{"list": {parameters}}.Encode()
	if !found || len(suffix) > maxSuffix {
		return ""
	}
	return suffix
}

// from returns the page of the list from which the person came to the page of a link. If the address names no such page, the
// result is the first page of all active links.
func (u *UI) from(x *exchange) filter {
	parameters, err := url.ParseQuery(x.r.URL.Query().Get("list"))
	if err != nil || !slices.Contains(service.States(), u.filterOf(parameters).State) {
		parameters = nil
	}
	return u.filterOf(parameters)
}

// saying adds the parameter said to an address; see said.
func saying(address, message string) string {
	if strings.Contains(address, "?") {
		return address + "&said=" + message
	}
	return address + "?said=" + message
}

// Tagged returns the address of the list of the links with a tag.
func (f filter) Tagged(tag string) string {
	return filter{Tag: tag, State: f.State, base: f.base}.At("")
}

// errState is the answer to a request whose parameter state is not one of service.States.
var errState = &pageError{http.StatusBadRequest, "There is no such list",
	"The parameter state in the address has an unknown value. The states are active, expired, deleted and all."}

// list answers GET requests for the list of links, whose path is u.Base + "/". A person who may only create links gets
// the form for a new link.
func (u *UI) list(x *exchange) error {
	if err := x.person.maySee(); err != nil {
		if x.person.MayCreate() {
			return u.redirect(x, u.Base+"/new")
		}
		return err
	}
	q := x.r.URL.Query()
	page := list{filter: u.filterOf(q)}
	if !slices.Contains(service.States(), page.State) {
		return errState
	}
	selection := service.Filter{Text: page.Text, Tag: page.Tag, Host: page.Host, State: page.State}
	links, next, end, err := u.matching(x, selection, page.Cursor)
	defer end()
	page.Next = next
	if errors.Is(err, shortener.ErrPosition) {
		return &pageError{http.StatusBadRequest, "There is no such page of the list", "The address has a cursor that this service did not return. Begin with the newest links."}
	}
	v := &view{Title: "Links", Person: x.person, List: &page, Said: said(q)}
	status := http.StatusOK
	if err != nil { // the filter stays on the page, so that the person can try again
		p := u.problem(x, err)
		v.Problem, status = &p, p.Status
	}
	self := u.Origin(x.r)
	for i := range links {
		page.Links = append(page.Links, u.row(&links[i], self))
	}
	u.send(x, status, u.pages.list, v)
	return nil
}

// matching returns a page of the links that the filter f selects, and the cursor of the next page. The caller must call end
// after it has sent the page, even if err is not nil.
func (u *UI) matching(x *exchange, f service.Filter, cursor string) (links []shortener.Link, next string, end func(), err error) {
	end = func() {}
	if _, ok := destination.ParseHost(f.Host); !ok && f.Host != "" {
		return nil, "", end, &shortener.InvalidError{Field: "host", Reason: "must be a host such as go.dev, without a scheme and a port"}
	}
	if end, err = u.Service.BeginAnswer(x.r.Context(), x.person.actor()); err != nil {
		return nil, "", func() {}, err
	}
	links, next, err = u.Service.List(x.r.Context(), x.person.actor(), f, cursor, pageSize)
	return links, next, end, err
}

// said returns the message about the result of a form. After the server has handled a form, u.redirect sends the browser to
// a page whose address has the parameter said. This parameter names the message.
func said(q url.Values) string {
	return map[string]string{
		"created": "The link is created.", "existing": "This link existed already.",
		"saved": "The change is saved. It reaches all servers after a short delay.", "same": "Nothing was changed.", "deleted": "The link is deleted.",
	}[q.Get("said")]
}

// created returns the name of the message about a creation; see said.
func created(existing bool) string {
	if existing {
		return "existing"
	}
	return "created"
}

// view is the data of the templates.
type view struct {
	*shellData
	Title   string
	Person  person
	Problem *reply.Problem
	Said    string // message about what the last form did
	To      string // page after the sign-in
	List    *list
	From    filter // of the page of a link: the page of the list from which the person came
	Link    *row
	Form    *form
	QR      drawing
	Visits  *chart
}
