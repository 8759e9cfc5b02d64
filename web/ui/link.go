package ui

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/shortener/token"
	"keypool/web/internal/reply"
)

// find returns the link whose code is in the path of a request, if the person may see the link.
func (u *UI) find(x *exchange) (shortener.Link, error) {
	if err := x.person.maySee(); err != nil {
		return shortener.Link{}, err
	}
	return u.Service.Find(x.r.Context(), x.person.actor(), x.r.PathValue("code"))
}

// formOf returns a form with the stored values of a link.
func formOf(l *shortener.Link) *form {
	return &form{Values: valuesOf(l), Seen: valuesOf(l), Version: l.Version(), Fixed: !l.Editable()}
}

func (u *UI) show(x *exchange) error {
	link, err := u.find(x)
	if err != nil {
		return err
	}
	u.sendLink(x, http.StatusOK, &link, formOf(&link))
	return nil
}

// sendLink shows a link with its form, its QR code and its visits.
func (u *UI) sendLink(x *exchange, status int, l *shortener.Link, f *form) {
	r := u.row(l, u.Origin(x.r))
	u.send(x, status, u.pages.link, &view{
		Title: r.ShortText(), Person: x.person, Link: &r, Form: f, QR: u.drawInline(x, r.Short), Visits: u.chartOf(x, l.Code), Said: said(x.r.URL.Query()), From: u.from(x),
	})
}

// change changes a link if the link still has the version that the person saw. If another request has changed the link,
// the form shows the typed values and the stored values.
func (u *UI) change(x *exchange) error {
	if !x.person.MayEdit() {
		return lacks(x.person, token.ScopeEdit)
	}
	sent, err := readChange(x.r.PostForm)
	if err != nil {
		return err
	}
	patch := sent.Values.patch(sent.Seen)
	patch.Self, patch.Versions = u.Origin(x.r), []int64{sent.Version}
	code := x.r.PathValue("code")
	if maps.Equal(sent.Values, sent.Seen) {
		return u.redirect(x, saying(u.pathOf(code)+u.from(x).Suffix(), "same"))
	}
	if _, err = u.Service.Change(x.r.Context(), x.person.actor(), code, patch); err == nil {
		return u.redirect(x, saying(u.pathOf(code)+u.from(x).Suffix(), "saved"))
	}
	return u.showRefused(x, sent, patch, err)
}

// readChange reads the form of a change.
func readChange(sent url.Values) (*form, error) {
	version, err := strconv.ParseInt(sent.Get("version"), 10, 64)
	if err != nil {
		return nil, errForm
	}
	names := editable()
	fixed := !sent.Has("url") // the form of a fixed link has no field for its URL
	if fixed {
		names = names[1:]
	}
	return &form{Values: readValues(sent, "", names...), Seen: readValues(sent, "seen_", names...), Version: version, Fixed: fixed}, nil
}

// showRefused shows the form of a change that was refused. If the change is stored already, it redirects to the page of the link
// instead. sent is the form of the request, patch is its change, and cause is the error.
func (u *UI) showRefused(x *exchange, sent *form, patch shortener.Patch, cause error) error {
	if errors.Is(cause, shortener.ErrNotFound) || errors.Is(cause, shortener.ErrGone) {
		return cause
	}
	link, err := u.find(x)
	if errors.Is(err, shortener.ErrNotFound) {
		return err
	}
	if err != nil {
		u.showUnread(x, sent, fmt.Errorf("the change failed (%s), and the link cannot be read: %w", cause.Error(), err))
		return nil
	}
	f := formOf(&link)
	p := u.problem(x, cause)
	if errors.Is(cause, shortener.ErrVersion) {
		if isStored(patch, &link) { // usually by an earlier request of the same form
			return u.redirect(x, saying(u.pathOf(link.Code)+u.from(x).Suffix(), "saved"))
		}
		f.Values, f.Others = merge(sent.Values, sent.Seen, f.Seen)
		p = reply.Problem{Status: http.StatusConflict, Detail: "Another request changed this link after you opened the page. Your input is still here, " +
			"and the fields that you did not change have the new values. Save again to store it."}
	} else {
		maps.Copy(f.Values, sent.Values)
		f.Seen, f.Version = sent.Seen, sent.Version
		f.complete(u.Origin(x.r))
	}
	f.Problem = &p
	u.sendLink(x, p.Status, &link, f)
	return nil
}

// isStored reports whether the link has the values of a change. The service normalizes values before it stores them.
// Therefore isStored does not compare the values: it applies the change to a copy of the link, and checks that the version
// stays the same. It needs no block list, because nothing is written.
func isStored(patch shortener.Patch, l *shortener.Link) bool {
	changed, err := patch.Apply(*l, time.Now(), new(destination.Rules))
	return err == nil && changed.Version() == l.Version()
}

// showUnread shows the form of a failed change when the link cannot be read. The form contains the values that the person
// sent. err determines the status of the answer, so err must not wrap the error of the change.
func (u *UI) showUnread(x *exchange, sent *form, err error) {
	p := u.problem(x, err)
	sent.Problem = &p
	r := u.row(&shortener.Link{Code: x.r.PathValue("code")}, u.Origin(x.r))
	u.send(x, p.Status, u.pages.unread, &view{Title: r.ShortText(), Person: x.person, Link: &r, Form: sent, From: u.from(x)})
}

func (u *UI) askDelete(x *exchange) error {
	link, err := u.find(x)
	if err == nil && !x.person.MayEdit() {
		err = lacks(x.person, token.ScopeEdit)
	}
	if err != nil {
		return err
	}
	r := u.row(&link, u.Origin(x.r))
	u.send(x, http.StatusOK, u.pages.remove, &view{Title: "Delete " + r.ShortText(), Person: x.person, Link: &r, From: u.from(x)})
	return nil
}

// remove deletes a link. It does not require a version, because the person confirmed the deletion of the code.
func (u *UI) remove(x *exchange) error {
	if !x.person.MayEdit() {
		return lacks(x.person, token.ScopeEdit)
	}
	if err := u.Service.Delete(x.r.Context(), x.person.actor(), x.r.PathValue("code"), nil); err != nil {
		return err
	}
	list := u.from(x)
	return u.redirect(x, saying(list.At(list.Cursor), "deleted"))
}
