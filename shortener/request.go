package shortener

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"keypool/shortener/destination"
)

// Request describes the link to create. A field is nil if the user did not send it.
type Request struct {
	URL       string
	Alias     *string
	ExpiresAt *string            // RFC 3339
	ExpiresIn *string            // a decimal number of seconds, or a Go duration
	Self      destination.Origin // origin of this service; a link must not lead to it

	// MaxAge is the maximum time from the creation to the expiry of the link. If the request has no expiry, the
	// link expires after MaxAge. 0 means that there is no maximum.
	MaxAge time.Duration

	Owner    int64 // id of the token that will own the link; 0 for an anonymous request, for which the members below are nil
	Title    *string
	Tags     []string
	Editable *bool // whether the URL may change later; false if nil
	Redirect *int
	Forward  *string
}

// Owned returns the name of the first member of r that requires a token, or "" if r has no such member.
func (r *Request) Owned() string {
	switch {
	case r.Title != nil:
		return "title"
	case r.Tags != nil:
		return "tags"
	case r.Editable != nil:
		return "editable"
	case r.Redirect != nil:
		return "redirect"
	case r.Forward != nil:
		return "forward"
	}
	return ""
}

// hasExpiry reports whether the user sent an expiry.
func (r *Request) hasExpiry() bool { return r.ExpiresAt != nil || r.ExpiresIn != nil }

// Link validates the request and returns the link that it describes. The parameter now becomes the creation time. The
// parameter allowed decides where the link may lead. Link sets Code only if the request has an alias. It fails with an
// *InvalidError or with [destination.ErrBlocked].
func (r *Request) Link(now time.Time, allowed *destination.Rules) (Link, error) {
	url, err := normalURL(allowed, r.URL, r.Self)
	if err != nil {
		return Link{}, err
	}
	expires, err := parseExpiry(r.ExpiresAt, r.ExpiresIn, now)
	if err != nil {
		return Link{}, err
	}
	if expires, err = r.boundAge(expires, now); err != nil {
		return Link{}, err
	}
	details, err := r.details()
	if err != nil {
		return Link{}, err
	}
	link := Link{URL: url, CreatedAt: stamp(now), ExpiresAt: expires, Details: details}
	if r.Alias != nil {
		if err := checkAlias(*r.Alias); err != nil {
			return Link{}, err
		}
		// Copy the alias, because it may share memory with a whole request body.
		link.Code, link.Source = strings.Clone(*r.Alias), SourceAlias
	}
	return link, nil
}

// normalURL returns raw in the form that is stored. It fails with an *InvalidError or with [destination.ErrBlocked].
func normalURL(allowed *destination.Rules, raw string, self destination.Origin) (string, error) {
	url, err := allowed.Normalize(raw, self)
	if invalid, ok := errors.AsType[*destination.InvalidError](err); ok {
		err = &InvalidError{Field: "url", Reason: invalid.Reason}
	}
	return url, err
}

const (
	// MaxAlias is the length of the longest alias.
	MaxAlias = 16
	// maxCode is the length of the longest code that an import accepts. The longest key of any key source has 22
	// characters: a UUID in base62.
	maxCode = 64
)

// reserved reports whether alias is the first part of a path that this service serves
// or may serve later. Letter case does not matter, because a user who types /Admin must not
// follow a link of another user.
func reserved(alias string) bool {
	return slices.Contains([]string{
		"shorten", "healthz", "livez", "readyz", "metrics", "status",
		"debug", "api", "admin", "static", "assets", "docs",
	}, strings.ToLower(alias))
}

// IsRoute reports whether code equals a path that this service serves. A link with such a code could not be
// followed. IsRoute ignores the other reserved names, because none of them is a path of the public listener. It
// distinguishes upper and lower case, because paths are case-sensitive.
func IsRoute(code string) bool {
	return code == "shorten" || code == "healthz" || code == "docs" || code == "admin"
}

// checkAlias returns an *InvalidError if a user may not choose alias.
func checkAlias(alias string) error {
	switch {
	case alias == "" || len(alias) > MaxAlias:
		return &InvalidError{Field: "alias", Reason: "must be 1 to 16 characters long"}
	case !destination.IsWord(alias):
		return &InvalidError{Field: "alias", Reason: "must contain only the letters A-Z and a-z, digits, _ and -"}
	case reserved(alias):
		return &InvalidError{Field: "alias", Reason: "is reserved for this service; choose another"}
	}
	return nil
}

// IsCode reports whether code could be the code of a link. If IsCode returns false, the service makes no look-up and
// answers that no link has this code.
func IsCode(code string) bool {
	return code != "" && len(code) <= maxCode && destination.IsWord(code)
}

// An expiry lies at least minExpiry and at most maxYears in the future. A link that expires in less than minExpiry
// would be useless, because no client could follow the link in time.
const (
	minExpiry = time.Second
	maxYears  = 100
)

// parseExpiry returns the expiry of a link that is created or changed at now, truncated to the microsecond. The
// parameter at is a time in RFC 3339. The parameter in is a decimal number of seconds or a Go duration. If at and in
// are nil, the result is the zero time. parseExpiry fails if the expiry is outside the bounds minExpiry and maxYears.
func parseExpiry(at, in *string, now time.Time) (time.Time, error) {
	switch {
	case at != nil && in != nil:
		return time.Time{}, &InvalidError{Field: "expires_in", Reason: "must not be given together with expires_at"}
	case at != nil:
		t, ok := ParseTime(*at)
		if !ok {
			return time.Time{}, &InvalidError{Field: "expires_at", Reason: "must be an RFC 3339 time such as 2030-12-31T23:59:59Z"}
		}
		return boundExpiry("expires_at", t, now)
	case in != nil:
		d, ok := parseDuration(*in)
		if !ok {
			return time.Time{}, &InvalidError{Field: "expires_in", Reason: `must be a number of seconds or a duration such as "36h", up to 100 years`}
		}
		return boundExpiry("expires_in", now.Add(d), now)
	}
	return time.Time{}, nil
}

func boundExpiry(field string, t, now time.Time) (time.Time, error) {
	t = stamp(t)
	if !t.After(now) {
		return time.Time{}, &InvalidError{Field: field, Reason: "must lie in the future"}
	}
	if t.Before(stamp(now.Add(minExpiry))) {
		return time.Time{}, &InvalidError{Field: field, Reason: "must lie at least one second in the future"}
	}
	if t.After(now.AddDate(maxYears, 0, 0)) {
		return time.Time{}, &InvalidError{Field: field, Reason: "must lie within the next 100 years"}
	}
	return t, nil
}

// boundAge returns the expiry of a link that is created at now. If MaxAge is 0, the result is the parameter expires. If the request
// has no expiry, the result is now plus MaxAge. If expires is later than that time, boundAge fails.
func (r *Request) boundAge(expires, now time.Time) (time.Time, error) {
	if r.MaxAge == 0 {
		return expires, nil
	}
	last := stamp(now.Add(r.MaxAge))
	if !r.hasExpiry() {
		return last, nil
	}
	if expires.After(last) {
		field := "expires_at"
		if r.ExpiresIn != nil {
			field = "expires_in"
		}
		return time.Time{}, &InvalidError{Field: field, Reason: "must lie within " + shortDuration(r.MaxAge) + ", the maximum lifetime of a link that is created without a token"}
	}
	return expires, nil
}

// shortDuration returns the text of a duration without trailing units that are zero: 720h, not 720h0m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// stamp converts a time to UTC and truncates it to microseconds, which every engine can store.
func stamp(t time.Time) time.Time {
	return t.UTC().Truncate(time.Microsecond)
}

// rfc3339 is the syntax of a time in RFC 3339, section 5.6. Without this check, package time
// would also accept an hour of one digit, a comma before the fraction and a zone of 24 hours.
// Package time rejects text that has this syntax and is not a time, such as 30 February.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):\d\d)$`)

// ParseTime parses a time in RFC 3339. The letters T and Z may be lower case. The second result reports whether s
// is a time.
func ParseTime(s string) (time.Time, bool) {
	if !rfc3339.MatchString(s) {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, strings.ToUpper(s))
	return t, err == nil
}

// parseDuration parses a decimal number of seconds or a Go duration. A number beyond the range of
// Duration becomes plus or minus the maximum of Duration, and boundExpiry rejects both.
func parseDuration(s string) (time.Duration, bool) {
	// Text with characters that do not occur in a decimal number is not a number of seconds. ParseFloat does not check
	// this: it accepts "inf", "nan" and hexadecimal numbers.
	if strings.Trim(s, "+-.0123456789eE") != "" {
		d, err := time.ParseDuration(s)
		return d, err == nil
	}
	seconds, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(seconds, 0) {
		return 0, false
	}
	const limit = float64(math.MaxInt64 / int64(time.Second))
	if math.Abs(seconds) > limit {
		return time.Duration(math.Copysign(1, seconds)) * math.MaxInt64, true
	}
	return time.Duration(math.Round(seconds * float64(time.Second))), true
}
