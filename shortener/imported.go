package shortener

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"keypool/shortener/destination"
)

// ImportRules check links that an import brings from another service or from another database. Times in the past,
// long codes and links without an expiry are valid, because such links exist. The block list does not
// apply: a link to a blocked host exists, and does not resolve.
type ImportRules struct {
	Self     destination.Origin // origin of this service; a link must not lead to it
	OwnHosts *destination.Hosts // further names of this service
	// Exported reports whether this program exported the links. A key may then equal a reserved name.
	Exported bool
}

// Check returns a link in the form in which it is stored, or an *InvalidError that names the invalid member. The
// result shares no slice with l. Its Source is SourceImport.
func (r *ImportRules) Check(l Link) (_ Link, err error) {
	if err := r.checkCode(l.Code); err != nil {
		return Link{}, err
	}
	l.Code, l.Source, l.Once = strings.Clone(l.Code), SourceImport, nil
	allowed := destination.Rules{Own: r.OwnHosts}
	if l.URL, err = normalURL(&allowed, l.URL, r.Self); err != nil {
		return Link{}, err
	}
	if l.Details, err = r.checkDetails(l.Details); err != nil {
		return Link{}, err
	}
	for _, t := range []struct {
		field    string
		at       *time.Time
		required bool
	}{{"created_at", &l.CreatedAt, true}, {"expires_at", &l.ExpiresAt, false}, {"deleted_at", &l.DeletedAt, false}} {
		if err := checkMoment(t.field, t.at, t.required); err != nil {
			return Link{}, err
		}
	}
	return l, nil
}

func (r *ImportRules) checkCode(code string) error {
	switch {
	case code == "" || len(code) > maxCode:
		return &InvalidError{Field: "code", Reason: fmt.Sprintf("must be 1 to %d characters long", maxCode)}
	case !destination.IsWord(code):
		return &InvalidError{Field: "code", Reason: "must contain only the letters A-Z and a-z, digits, _ and -"}
	case IsRoute(code) || !r.Exported && reserved(code):
		return &InvalidError{Field: "code", Reason: "is reserved for this service; choose another"}
	}
	return nil
}

// maxVersion leaves room for more changes than a link can have.
const maxVersion = 1 << 53

// checkDetails returns a copy of d, or nil if d has only default values.
func (r *ImportRules) checkDetails(d *Details) (*Details, error) {
	if d == nil {
		return nil, nil //nolint:nilnil // an anonymous link has no details
	}
	checked := Details{Owner: d.Owner, Editable: d.Editable, Version: d.Version, ChangedAt: d.ChangedAt, URLChangedAt: d.URLChangedAt}
	p := Patch{Title: &d.Title, Tags: &d.Tags}
	if d.Redirect != 0 {
		p.Redirect = &d.Redirect
	}
	if d.Forward != "" {
		p.Forward = new(string(d.Forward))
	}
	if err := checked.set(p); err != nil {
		return nil, err
	}
	if d.Editable && d.Owner == 0 {
		return nil, &InvalidError{Field: "editable", Reason: "must be false for a link without an owner"}
	}
	if d.Version < 1 || d.Version > maxVersion {
		return nil, &InvalidError{Field: "version", Reason: fmt.Sprintf("must be 1 to %d", int64(maxVersion))}
	}
	if err := checkMoment("changed_at", &checked.ChangedAt, false); err != nil {
		return nil, err
	}
	if err := checkMoment("url_changed_at", &checked.URLChangedAt, false); err != nil {
		return nil, err
	}
	if d.FirstURL != "" {
		first, err := new(destination.Rules).Normalize(d.FirstURL, destination.Origin{})
		if invalid, ok := errors.AsType[*destination.InvalidError](err); ok {
			return nil, &InvalidError{Field: "first_url", Reason: invalid.Reason}
		}
		checked.FirstURL = first
	}
	if reflect.DeepEqual(checked, Details{Version: 1}) {
		return nil, nil //nolint:nilnil // an anonymous link has no details
	}
	return &checked, nil
}

// checkMoment checks a time of a link, which lists can sort from 1970 on, and converts it to its stored form.
func checkMoment(field string, at *time.Time, required bool) error {
	if at.IsZero() && !required {
		return nil
	}
	if year := at.UTC().Year(); year < 1970 || year > 9999 {
		return &InvalidError{Field: field, Reason: "must be a time in the years 1970 to 9999"}
	}
	*at = stamp(*at)
	return nil
}
