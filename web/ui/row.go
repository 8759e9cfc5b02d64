package ui

import (
	"net/url"
	"strings"
	"time"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/shortener/service"
	"keypool/web/internal/shell"
)

// row holds the texts with which a page shows a link.
type row struct {
	shortener.Link
	Short      string // short URL
	Host, Rest string // URL of the link: its host, and what follows
	OwnerName  string
	Path       string // path of the page of the link
}

func (u *UI) row(l *shortener.Link, self destination.Origin) row {
	r := row{Link: *l, Short: self.String() + "/" + l.Code, OwnerName: u.owner(l), Path: u.pathOf(l.Code)}
	r.Host, r.Rest = shell.SplitURL(l.URL)
	return r
}

// pathOf returns the path of the page of a link.
func (u *UI) pathOf(code string) string { return u.Base + "/code/" + url.PathEscape(code) }

// owner returns the name of the owner of a link, or "" if the link is anonymous.
func (u *UI) owner(l *shortener.Link) string {
	if l.Owner() == 0 {
		return ""
	}
	return u.Tokens.Name(l.Owner())
}

// Prefix returns the short URL without its code.
func (r *row) Prefix() string { return strings.TrimSuffix(r.Short, r.Code) }

// HostText returns the short URL without its scheme and its code.
func (r *row) HostText() string { return strings.TrimSuffix(r.ShortText(), r.Code) }

// ShortText returns the short URL without its scheme.
func (r *row) ShortText() string {
	_, text, _ := strings.Cut(r.Short, "://")
	return text
}

// copyButton is the data of a button that copies a short URL.
type copyButton struct {
	ID    string // id of the element that contains the short URL
	Short string
}

// CopyFrom returns the button that copies the short URL from the element with an id.
func (r *row) CopyFrom(id string) copyButton { return copyButton{id, r.Short} }

// Tags returns the tags of the link.
func (r *row) Tags() []string {
	if r.Details == nil {
		return nil
	}
	return r.Details.Tags
}

// ChangedAt returns the time of the last change, or the zero time if there was no change.
func (r *row) ChangedAt() time.Time {
	if r.Details == nil {
		return time.Time{}
	}
	return r.Details.ChangedAt
}

// State returns the state of the link: "active", "expired" or "deleted".
func (r *row) State() string {
	switch {
	case !r.DeletedAt.IsZero():
		return "deleted"
	case r.Gone(time.Now()):
		return "expired"
	}
	return "active"
}

// Tagged returns the address of the list of the active links with a tag.
func (v *view) Tagged(tag string) string {
	return filter{State: service.StateActive, base: v.Base}.Tagged(tag)
}

// Scheme returns the scheme of the short URL, with "://".
func (r *row) Scheme() string { return strings.TrimSuffix(r.Short, r.ShortText()) }
