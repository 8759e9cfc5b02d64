package web

import (
	"net/http"
	"strconv"
	"strings"

	"keypool/web/internal/reply"
)

// Media types of requests and answers.
const (
	mediaJSON    = reply.MediaJSON
	mediaText    = "text/plain"
	mediaHTML    = reply.MediaHTML
	mediaProblem = reply.MediaProblem
	mediaForm    = "application/x-www-form-urlencoded"
)

// negotiate selects one of offers by the request's Accept header (RFC 9110 section 12.5.1).
// It returns the first of the offers with the highest q-value. If the client accepts none
// of the offers, negotiate returns the first one, because an answer is more useful than a
// 406.
func negotiate(r *http.Request, offers ...string) string {
	accept := r.Header["Accept"]
	if len(accept) == 0 || (len(accept) == 1 && (accept[0] == "*/*" || accept[0] == offers[0])) {
		return offers[0]
	}
	ranges := strings.Split(strings.Join(accept, ","), ",")
	best, bestQ := offers[0], 0.0
	for _, offer := range offers {
		if q := quality(ranges, offer); q > bestQ {
			best, bestQ = offer, q
		}
	}
	return best
}

// wantsPage reports whether the client prefers HTML, as browsers do.
func wantsPage(r *http.Request) bool {
	return negotiate(r, mediaJSON, mediaHTML) == mediaHTML
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

// specificityOf returns how closely a media range matches offer, from 0 (no match) to 3
// (exact match).
func specificityOf(media, offer string) int {
	major, _, _ := strings.Cut(offer, "/")
	switch {
	case media == offer, media == mediaProblem && offer == mediaJSON:
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
