package shortener

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"keypool/shortener/destination"
)

// ImportRules check links that are imported from another service or from another database. Times in the past, long codes
// and links without an expiry are valid, because such links exist already. The block list does not apply: a link to a
// blocked host may be imported, but it does not resolve.
type ImportRules struct {
	Self     destination.Origin // origin of this service; a link must not lead to it
	OwnHosts *destination.Hosts // further host names of this service
	Now      time.Time          // time of the import
	// Exported is true if this program exported the links. Then a code may be a reserved name, because the code may be
	// a key, and only aliases must not be reserved names.
	Exported bool
}

// Check returns the link in the form in which the store keeps it, or an *InvalidError that names the invalid member.
// The result shares no slice with l. The Source of the result is SourceImport.
func (r *ImportRules) Check(l Link) (_ Link, err error) {
	if err := r.checkCode(l.Code); err != nil {
		return Link{}, err
	}
	l.Code, l.Source, l.IdempotencyKey = strings.Clone(l.Code), SourceImport, nil
	allowed := destination.Rules{Own: r.OwnHosts}
	if l.URL, err = normalURL(&allowed, l.URL, r.Self); err != nil {
		return Link{}, err
	}
	if l.Details, err = r.checkDetails(l.Details); err != nil {
		return Link{}, err
	}
	if err := r.checkMoments(&l); err != nil {
		return Link{}, err
	}
	if d := l.Details; d != nil && !d.Editable {
		if d.FirstURL != "" {
			return Link{}, &InvalidError{Field: "first_url", Reason: reasonFixed}
		}
		if !d.URLChangedAt.IsZero() {
			return Link{}, &InvalidError{Field: "url_changed_at", Reason: reasonFixed}
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

const reasonFixed = "must be absent for a fixed link, whose URL never changes"

// maxVersion is the greatest version that an import accepts. It is far below the maximum of an int64, because each later
// change adds 1 to the version.
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
	if len(checked.Tags) < len(d.Tags) {
		return nil, &InvalidError{Field: "tags", Reason: "must not contain a tag twice"}
	}
	if d.Editable && d.Owner == 0 {
		return nil, &InvalidError{Field: "editable", Reason: "must be false for a link without an owner"}
	}
	if d.Version < 1 || d.Version > maxVersion {
		return nil, &InvalidError{Field: "version", Reason: fmt.Sprintf("must be 1 to %d", int64(maxVersion))}
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

// maxSkew is the greatest error of a time that an import accepts. No time of a link may be earlier than the
// creation of the link by more than maxSkew. No time of a link except its expiry may lie more than maxSkew in
// the future. Times may have errors, because the clocks of two servers that changed the link may differ, and
// because another service may have written local times.
const maxSkew = 24 * time.Hour

// checkMoments checks the times of a link and converts them to the form in which the store keeps them. It rejects times
// outside the years 1970 to 9999, because lists cannot sort them.
func (r *ImportRules) checkMoments(l *Link) error {
	type moment struct {
		field string
		at    *time.Time
		past  bool
	}
	moments := []moment{{"expires_at", &l.ExpiresAt, false}, {"deleted_at", &l.DeletedAt, true}}
	if d := l.Details; d != nil {
		moments = append(moments, moment{"changed_at", &d.ChangedAt, true}, moment{"url_changed_at", &d.URLChangedAt, true})
	}
	moments = append(moments, moment{"created_at", &l.CreatedAt, true})
	for _, m := range moments {
		if m.at.IsZero() && m.at != &l.CreatedAt {
			continue
		}
		if year := m.at.UTC().Year(); year < 1970 || year > 9999 {
			return &InvalidError{Field: m.field, Reason: "must be a time in the years 1970 to 9999"}
		}
		if *m.at = stamp(*m.at); m.past && m.at.After(r.Now.Add(maxSkew)) {
			return &InvalidError{Field: m.field, Reason: "must be at most 24 hours in the future"}
		}
	}
	for _, m := range moments {
		if !m.at.IsZero() && m.at.Before(l.CreatedAt.Add(-maxSkew)) {
			return &InvalidError{Field: m.field, Reason: "must be at most 24 hours before the creation of the link"}
		}
	}
	return nil
}
