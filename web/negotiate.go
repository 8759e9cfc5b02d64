package web

import (
	"net/http"
	"strconv"
	"strings"
)

// The representations that an answer may have, in the order in which a client
// gets them that does not care.
const (
	mediaJSON = "application/json"
	mediaText = "text/plain"
	mediaHTML = "text/html"

	mediaProblem = "application/problem+json"
	mediaForm    = "application/x-www-form-urlencoded"
)

// negotiate picks one of offers by the request's Accept header (RFC 9110 section
// 12.5.1): the highest q-value wins, of equals the first offer. A client that
// accepts none of them gets the first as well; it is more use than a 406.
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

// wantsPage reports whether the client is a browser, or says that it is one.
func wantsPage(r *http.Request) bool {
	return negotiate(r, mediaJSON, mediaHTML) == mediaHTML
}

// quality is the q-value of the most specific range that covers offer, 0 if none does.
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

// specificityOf ranks how closely a media range names offer: 0 not at all, 3 exactly.
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

// qValue reads the weight among the parameters of a media range. A weight that
// cannot be read is none, so that a typing error does not win.
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
