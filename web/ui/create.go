package ui

import (
	"crypto/rand"
	"errors"
	"net/http"
	"strconv"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/shortener/token"
	"keypool/web/internal/shell"
)

// newForm returns an empty form for a creation.
func (u *UI) newForm(x *exchange) *form {
	host, _ := shell.SplitURL(u.Origin(x.r).String())
	f := &form{
		Values: values{"redirect": "302", "forward": string(shortener.ForwardNone)}, Host: host, Operator: x.person.operator, Key: rand.Text(),
		For: strconv.FormatInt(x.person.token.ID, 10),
	}
	if f.Operator {
		f.Owners = u.Tokens.Valid()
	}
	return f
}

func (u *UI) askCreate(x *exchange) error {
	if !x.person.MayCreate() {
		return lacks(x.person, token.ScopeCreate)
	}
	f := u.newForm(x)
	f.Values["url"] = x.r.URL.Query().Get("url")
	u.sendCreate(x, http.StatusOK, f)
	return nil
}

func (u *UI) sendCreate(x *exchange, status int, f *form) {
	u.send(x, status, u.pages.create, &view{Title: "New link", Person: x.person, Form: f})
}

// maxKey is the maximum length of the idempotency key of a form, in bytes.
const maxKey = 64

// create creates a link. A refused form is shown again with its input. A browser sends a form again if a person reloads
// the page or clicks twice. The form has an idempotency key, so the answer to the repeated form shows the first link.
func (u *UI) create(x *exchange) error {
	if !x.person.MayCreate() {
		return lacks(x.person, token.ScopeCreate)
	}
	f := u.newForm(x)
	f.Values = readValues(x.r.PostForm, "", append(editable(), "alias")...)
	f.Editable, f.Owner = x.r.PostForm.Get("editable") != "", x.r.PostForm.Get("owner")
	if key := x.r.PostForm.Get("key"); key != "" {
		if len(key) > maxKey || !destination.IsWord(key) {
			return errForm
		}
		f.Key = key
	}
	link, existing, err := u.createFrom(x, f)
	if err == nil {
		if !x.person.has(token.ScopeRead) && !x.person.MayEdit() { // this person cannot open the page of the link
			return u.sendOnly(x, &link, existing)
		}
		return u.redirect(x, saying(u.pathOf(link.Code), created(existing)))
	}
	if errors.Is(err, shortener.ErrKeyReused) {
		what := "a link"
		if link.Code != "" {
			what = "the link " + u.row(&link, u.Origin(x.r)).Short
		}
		err, f.Key = formUsed(what), rand.Text()
	}
	p := u.problem(x, err)
	if errors.Is(err, shortener.ErrAliasTaken) {
		p.Suggestions = u.Service.Suggest(x.r.Context(), f.Values["alias"])
	}
	f.Problem = &p
	f.complete(u.Origin(x.r))
	u.sendCreate(x, p.Status, f)
	return nil
}

// sendOnly shows a new link to a person who may only create links.
func (u *UI) sendOnly(x *exchange, link *shortener.Link, existing bool) error {
	r := u.row(link, u.Origin(x.r))
	u.send(x, http.StatusOK, u.pages.create, &view{
		Title: "New link", Person: x.person, Form: u.newForm(x), Link: &r, Said: said(map[string][]string{"said": {created(existing)}}),
	})
	return nil
}

// createFrom creates the link that a form describes. An alias that belongs to another link counts as a miss, as in the
// API.
func (u *UI) createFrom(x *exchange, f *form) (link shortener.Link, existing bool, err error) {
	if sentTo := x.r.PostForm.Get("for"); sentTo != "" && sentTo != f.For {
		return link, false, otherPerson(x.person)
	}
	request := f.request(u.Origin(x.r))
	if request.Owner, err = u.ownerOf(x.person, f, &request); err != nil {
		return link, false, err
	}
	if request.Owner == 0 { // an anonymous link has no details; ownerOf has checked that both fields have their defaults
		request.Redirect, request.Forward = nil, nil
	}
	if request.Alias != nil { // only a creation with an alias reveals whether a code exists
		if err := u.Limits.Admit(x.r); err != nil {
			return link, false, err
		}
	}
	if !x.person.operator {
		if err := u.Limits.Spend(x.person.token); err != nil {
			return link, false, err
		}
	}
	link, existing, _, err = u.Service.CreateIdempotent(x.r.Context(), request, f.Key)
	if errors.Is(err, shortener.ErrAliasTaken) {
		u.Limits.Missed(x.r)
	}
	return link, existing, err
}

// request returns the creation that the form describes, without an owner.
func (f *form) request(self destination.Origin) shortener.Request {
	r := shortener.Request{
		URL: f.Values["url"], Self: self,
		Redirect: new(f.Values.redirect()), Forward: new(f.Values["forward"]),
	}
	if alias := f.Values["alias"]; alias != "" {
		r.Alias = &alias
	}
	if title := f.Values["title"]; title != "" {
		r.Title = &title
	}
	if tags := f.Values.tags(); len(tags) > 0 {
		r.Tags = tags
	}
	if f.Editable {
		r.Editable = &f.Editable
	}
	if f.Values["expires_at"] != "" {
		r.ExpiresAt = new(f.Values.expiryText())
	}
	return r
}

// ownerOf returns the id of the token that owns the link to create, or 0 for an anonymous link. If p has a token, this
// token is the owner. The operator has no token, and may choose one as the owner. An anonymous link has no details, so
// ownerOf fails if the operator chooses no token but enters details.
func (u *UI) ownerOf(p person, f *form, r *shortener.Request) (int64, error) {
	if !p.operator {
		return p.token.ID, nil
	}
	for i := range f.Owners {
		if strconv.FormatInt(f.Owners[i].ID, 10) == f.Owner {
			return f.Owners[i].ID, nil
		}
	}
	if f.Owner != "" {
		return 0, &shortener.InvalidError{Field: "owner", Reason: "must be a token that is valid"}
	}
	plain := *r
	if f.Values["redirect"] == "302" {
		plain.Redirect = nil
	}
	if f.Values["forward"] == string(shortener.ForwardNone) {
		plain.Forward = nil
	}
	if member := plain.Owned(); member != "" {
		return 0, &shortener.InvalidError{Field: "owner", Reason: "must be a token, because only the link of a token can have " + detailName(member)}
	}
	return 0, nil
}

// detailName returns the words with which the page names a member of a request.
func detailName(member string) string {
	return map[string]string{
		"title": "a title", "tags": "tags", "editable": "a destination that may change", "redirect": "another status than 302",
		"forward": "something to forward",
	}[member]
}
