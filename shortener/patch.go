package shortener

import (
	"time"

	"keypool/shortener/destination"
)

// Patch describes a change of a link. A field that is nil changes nothing. A pointer to "" removes the expiry or the title. A
// pointer to an empty list removes the tags.
type Patch struct {
	URL       *string
	ExpiresAt *string // RFC 3339
	Title     *string
	Tags      *[]string
	Redirect  *int
	Forward   *string

	Versions []int64            // versions of the link that permit the change; nil permits every version
	Self     destination.Origin // origin of this service; a link must not lead to it
}

// Tombstone returns the link after its deletion. If the link is already deleted, the result equals the link.
func (l *Link) Tombstone(now time.Time) Link {
	deleted := *l
	if l.DeletedAt.IsZero() {
		deleted.DeletedAt = stamp(now)
		deleted.Details = l.nextDetails(deleted.DeletedAt)
	}
	return deleted
}

// ErasedURL is the URL of a link whose content was erased. It is a valid URL, so that lists, exports and imports need no
// special case. RFC 6761 reserves the domain invalid: no host has such a name.
const ErasedURL = "https://erased.invalid/"

// Erased returns the tombstone of the link without its content. If the content is already erased, the result equals the link.
// Otherwise these members remain: Code, Source, CreatedAt, and the owner in Details. If the link is deleted, DeletedAt remains too;
// if it is not deleted, DeletedAt becomes now. The URL becomes ErasedURL. The version increases by one, and the time of the last
// change becomes now.
func (l *Link) Erased(now time.Time) Link {
	erased := Link{
		Code: l.Code, URL: ErasedURL, Source: l.Source, CreatedAt: l.CreatedAt, DeletedAt: l.Tombstone(now).DeletedAt,
		Details: &Details{Owner: l.Owner(), Version: l.Version()},
	}
	if l.Details != nil {
		erased.Details.ChangedAt = l.Details.ChangedAt
	}
	if !Equal(erased, *l) {
		erased.Details.Version++
		erased.Details.ChangedAt = stamp(now)
	}
	return erased
}

// nextDetails returns a copy of the details for the next version of the link.
func (l *Link) nextDetails(now time.Time) *Details {
	next := Details{Version: 1}
	if l.Details != nil {
		next = *l.Details
		next.URLChangedAt = l.URLChangedAt()
	}
	next.Version++
	next.ChangedAt = now
	return &next
}

// Apply returns the link after the change. If nothing changes, the result is l with the same version. Apply ignores p.Versions. The
// parameter allowed decides where the link may lead. Apply fails with ErrGone for a tombstone, with ErrFixed if the URL of a fixed
// link would change, with an *InvalidError, or with [destination.ErrBlocked].
func (p *Patch) Apply(l Link, now time.Time, allowed *destination.Rules) (Link, error) {
	before, now := l, stamp(now)
	if l.Gone(now) {
		return Link{}, ErrGone
	}
	d := l.nextDetails(now)
	if err := p.applyURL(&l, d, allowed); err != nil {
		return Link{}, err
	}
	if p.ExpiresAt != nil {
		at := p.ExpiresAt
		if *at == "" {
			at = nil
		}
		expires, err := parseExpiry(at, nil, now)
		if err != nil {
			return Link{}, err
		}
		l.ExpiresAt = expires
	}
	if err := d.set(*p); err != nil {
		return Link{}, err
	}
	if l.URL == before.URL && l.ExpiresAt.Equal(before.ExpiresAt) && d.sameChoices(before.Details) {
		return before, nil
	}
	l.Details = d
	return l, nil
}

func (p *Patch) applyURL(l *Link, d *Details, allowed *destination.Rules) error {
	if p.URL == nil {
		return nil
	}
	url, err := normalURL(allowed, *p.URL, p.Self)
	if err != nil {
		return err
	}
	if url == l.URL {
		return nil
	}
	if !l.Editable() {
		return ErrFixed
	}
	if d.FirstURL == "" {
		d.FirstURL = l.URL
	}
	l.URL, d.URLChangedAt = url, d.ChangedAt
	return nil
}
