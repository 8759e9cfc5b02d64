package web

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"keypool/shortener"
	"keypool/web/internal/reply"

	"github.com/labstack/echo/v4"
)

// answer is the JSON representation of a link.
type answer struct {
	Code      string    `json:"code"`
	ShortURL  string    `json:"short_url"`
	URL       string    `json:"url"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

func newAnswer(l shortener.Link, self shortener.Origin) *answer {
	return &answer{
		Code:      l.Code,
		ShortURL:  self.String() + "/" + l.Code,
		URL:       l.URL,
		CreatedAt: l.CreatedAt.UTC(),
		ExpiresAt: l.ExpiresAt.UTC(),
	}
}

// formKey names the value in the echo.Context that holds the shortener.Request of a failed
// creation. The error page shows its fields again.
const formKey = "form"

// self returns the origin of this service. Each short URL begins with this origin.
func (p *public) self(c echo.Context) (shortener.Origin, error) {
	self := p.origin.of(c.Request())
	if self.IsZero() {
		return self, malformed("The Host header does not name a host that a short URL can contain.")
	}
	return self, nil
}

// create answers POST /shorten.
func (p *public) create(c echo.Context) error {
	self, err := p.self(c)
	if err != nil {
		return err
	}
	// MaxBytesReader closes the connection only through the ResponseWriter of net/http.
	r, err := readFields(c.Response().Writer, c.Request())
	if err != nil {
		return err
	}
	r.Self = self
	link, existing, err := p.service.Create(c.Request().Context(), r)
	if err != nil {
		c.Set(formKey, r)
		return err
	}
	status := http.StatusOK
	a := newAnswer(link, self)
	if !existing {
		status = http.StatusCreated
		c.Response().Header().Set(echo.HeaderLocation, a.ShortURL)
	}
	c.Response().Header().Set(echo.HeaderVary, echo.HeaderAccept)
	switch negotiate(c.Request(), mediaJSON, mediaText, mediaHTML) {
	case mediaText:
		return c.String(status, a.ShortURL+"\n")
	case mediaHTML:
		return p.pages.created(c, status, a)
	}
	return reply.JSON(c.Response(), mediaJSON, status, a)
}

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
