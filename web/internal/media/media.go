// Package media has the media types of requests and answers, and selects one of them by the Accept header
// (RFC 9110 section 12.5.1).
package media

import (
	"net/http"
	"strconv"
	"strings"
)

// Media types of requests and answers.
const (
	JSON       = "application/json"
	Text       = "text/plain"
	HTML       = "text/html"
	CSV        = "text/csv"
	Form       = "application/x-www-form-urlencoded"
	NDJSON     = "application/x-ndjson"         // one JSON object per line
	MergePatch = "application/merge-patch+json" // RFC 7396
	Problem    = "application/problem+json"     // RFC 9457
)

// maxRanges is the number of media ranges of an Accept header that Negotiate considers. Browsers send about ten.
const maxRanges = 64

// Negotiate selects one of offers by the Accept header of a request. It returns the offer with the
// highest q-value. If several offers have this q-value, Negotiate returns the first of these
// offers. If the client accepts none of the offers, Negotiate returns the first offer, because any
// answer is more useful than a 406.
func Negotiate(r *http.Request, offers ...string) string {
	accept := r.Header["Accept"]
	if len(accept) == 0 || (len(accept) == 1 && (accept[0] == "*/*" || accept[0] == offers[0])) {
		return offers[0]
	}
	ranges := strings.SplitN(strings.Join(accept, ","), ",", maxRanges+1)
	ranges = ranges[:min(len(ranges), maxRanges)]
	best, bestQ := offers[0], 0.0
	for _, offer := range offers {
		if q := quality(ranges, offer); q > bestQ {
			best, bestQ = offer, q
		}
	}
	return best
}

// WantsPage reports whether the client prefers HTML, as browsers do.
func WantsPage(r *http.Request) bool {
	return Negotiate(r, JSON, HTML) == HTML
}

// quality returns the q-value of the most specific media range that matches offer, or 0 if
// no media range matches.
func quality(ranges []string, offer string) float64 {
	q, specificity := 0.0, 0
	for _, field := range ranges {
		media, params, _ := strings.Cut(field, ";")
		if s := specificityOf(strings.ToLower(strings.TrimSpace(media)), offer); s > specificity {
			specificity, q = s, qValue(params)
		}
	}
	return q
}

// specificityOf returns how closely a media range matches offer, from 0 (no match) to 3 (exact match). A problem is
// JSON, so the media range of problems is an exact match for the offer JSON.
func specificityOf(media, offer string) int {
	major, _, _ := strings.Cut(offer, "/")
	switch {
	case media == offer, media == Problem && offer == JSON:
		return 3
	case media == major+"/*":
		return 2
	case media == "*/*":
		return 1
	}
	return 0
}

// qValue returns the q parameter of a media range, or 1 if it is absent. A malformed q
// counts as 0, so that a typing error does not select an offer.
func qValue(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || !(q >= 0 && q <= 1) {
				return 0
			}
			return q
		}
	}
	return 1
}
