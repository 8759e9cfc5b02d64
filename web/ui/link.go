package ui

import (
	"errors"
	"maps"
	"net/http"
	"strconv"

	"keypool/shortener"
	"keypool/shortener/token"
	"keypool/web/internal/reply"
)

// find returns the link in the path of a request, if the person may see it.
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
	names := editable()
	if _, sent := x.r.PostForm["url"]; !sent { // the form of a fixed link has no field for its URL
		names = names[1:]
	}
	typed, seen := readValues(x.r.PostForm, "", names...), readValues(x.r.PostForm, "seen_", names...)
	patch := typed.patch(seen)
	patch.Self = u.Origin(x.r)
	version, err := strconv.ParseInt(x.r.PostForm.Get("version"), 10, 64)
	if err != nil {
		return errForm
	}
	patch.Versions = []int64{version}
	code := x.r.PathValue("code")
	if maps.Equal(typed, seen) {
		return u.redirect(x, saying(u.pathOf(code)+u.from(x).Suffix(), "same"))
	}
	if _, err = u.Service.Change(x.r.Context(), x.person.actor(), code, patch); err == nil {
		return u.redirect(x, saying(u.pathOf(code)+u.from(x).Suffix(), "saved"))
	}
	return u.showRefused(x, typed, seen, version, err)
}

// showRefused shows the form of a change that was refused. If the link already has the values of the form, it redirects to the page
// of the link instead. cause is the error.
func (u *UI) showRefused(x *exchange, typed, seen values, version int64, cause error) error {
	if errors.Is(cause, shortener.ErrNotFound) || errors.Is(cause, shortener.ErrGone) {
		return cause
	}
	link, err := u.find(x)
	if err != nil {
		return errors.Join(err, cause)
	}
	f := formOf(&link)
	p := u.problem(x, cause)
	if errors.Is(cause, shortener.ErrVersion) {
		f.Values, f.Others = merge(typed, seen, f.Seen)
		if maps.Equal(f.Values, f.Seen) { // the change is stored already, usually by an earlier request of the same form
			return u.redirect(x, saying(u.pathOf(link.Code)+u.from(x).Suffix(), "saved"))
		}
		p = reply.Problem{Status: http.StatusConflict, Detail: "Another request changed this link after you opened the page. Your input is still here, " +
			"and the fields that you did not change have the new values. Save again to store it."}
	} else {
		maps.Copy(f.Values, typed)
		f.Seen, f.Version = seen, version
		f.complete(u.Origin(x.r))
	}
	f.Problem = &p
	u.sendLink(x, p.Status, &link, f)
	return nil
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
