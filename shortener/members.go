package shortener

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of the members that the owner of a link chooses. The lengths are in characters.
const (
	maxTitle = 200
	maxTags  = 16
	maxTag   = 32
)

// details returns the details of the link to create, or nil for an anonymous request.
func (r *Request) details() (*Details, error) {
	if r.Owner == 0 {
		return nil, nil //nolint:nilnil // an anonymous link has no details
	}
	d := &Details{Owner: r.Owner, Version: 1, Editable: r.Editable != nil && *r.Editable}
	err := d.set(Patch{Title: r.Title, Tags: &r.Tags, Redirect: r.Redirect, Forward: r.Forward})
	return d, err
}

// set validates the title, the tags, the redirect and the forward of p, and copies them to d. It ignores nil
// values. Afterwards d shares no memory with p.
func (d *Details) set(p Patch) error {
	if p.Title != nil {
		title, err := checkTitle(*p.Title)
		if err != nil {
			return err
		}
		d.Title = title
	}
	if p.Tags != nil {
		tags, err := checkTags(*p.Tags)
		if err != nil {
			return err
		}
		d.Tags = tags
	}
	if p.Redirect != nil {
		if !slices.Contains([]int{301, DefaultRedirect, 307, 308}, *p.Redirect) {
			return &InvalidError{Field: "redirect", Reason: "must be 301, 302, 307 or 308"}
		}
		if d.Redirect = *p.Redirect; d.Redirect == DefaultRedirect {
			d.Redirect = 0
		}
	}
	if p.Forward != nil {
		switch f := Forward(*p.Forward); f {
		case ForwardNone:
			d.Forward = ""
		case ForwardQuery, ForwardQueryAndPath:
			d.Forward = Forward(strings.Clone(string(f)))
		default:
			return &InvalidError{Field: "forward", Reason: `must be "none", "query" or "query+path"`}
		}
	}
	return nil
}

// SatisfiedBy reports whether the stored link satisfies the request. The parameter wanted is the link that the request
// describes. The two links must have the same URL and the same Editable. If the request has an expiry, the expiries
// must be equal. If the request has an owner, the owner and the members that the owner chose must be equal too.
func (r *Request) SatisfiedBy(stored, wanted Link) bool {
	if stored.URL != wanted.URL || stored.Editable() != wanted.Editable() || r.hasExpiry() && !stored.ExpiresAt.Equal(wanted.ExpiresAt) {
		return false
	}
	return wanted.Owner() == 0 || stored.Owner() == wanted.Owner() && stored.Details.sameChoices(wanted.Details)
}

// sameChoices reports whether d and other have the same title, tags, redirect and forward. The parameter other may be nil.
func (d *Details) sameChoices(other *Details) bool {
	if other == nil {
		other = &Details{}
	}
	return d.Title == other.Title && slices.Equal(d.Tags, other.Tags) &&
		d.Redirect == other.Redirect && d.Forward == other.Forward
}

func checkTitle(title string) (string, error) {
	title = strings.TrimSpace(title)
	if !isText(title, maxTitle) {
		return "", &InvalidError{Field: "title", Reason: fmt.Sprintf("must have at most %d characters and no control characters", maxTitle)}
	}
	return strings.Clone(title), nil
}

// checkTags returns the tags without white space around them and without repetitions.
func checkTags(tags []string) (checked []string, err error) {
	for _, tag := range tags {
		tag = strings.TrimSpace(tag)
		if tag == "" || !isText(tag, maxTag) || strings.ContainsRune(tag, '|') {
			return nil, &InvalidError{Field: "tags", Reason: fmt.Sprintf(`must be tags of 1 to %d characters, without control characters and "|"`, maxTag)}
		}
		if slices.Contains(checked, tag) {
			continue
		}
		if len(checked) == maxTags {
			return nil, &InvalidError{Field: "tags", Reason: fmt.Sprintf("must be at most %d tags", maxTags)}
		}
		checked = append(checked, strings.Clone(tag))
	}
	return checked, nil
}

// isText reports whether s is printable text of at most limit characters.
func isText(s string, limit int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= limit && !strings.ContainsFunc(s, unicode.IsControl)
}
