package web

import (
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/web/internal/reply"
)

// answer is the JSON representation of a link for a client without a token. It lacks what only the owner may read.
type answer struct {
	Code      string            `json:"code"`
	ShortURL  string            `json:"short_url"`
	URL       string            `json:"url"`
	CreatedAt time.Time         `json:"created_at"`
	ExpiresAt time.Time         `json:"expires_at,omitzero"`
	Editable  bool              `json:"editable"`
	Version   int64             `json:"version"`
	Redirect  int               `json:"redirect"`
	Forward   shortener.Forward `json:"forward"`
}

func newAnswer(l shortener.Link, self destination.Origin) *answer {
	return &answer{
		Code:      l.Code,
		ShortURL:  self.String() + "/" + l.Code,
		URL:       l.URL,
		CreatedAt: l.CreatedAt.UTC(),
		ExpiresAt: l.ExpiresAt.UTC(),
		Editable:  l.Editable(),
		Version:   l.Version(),
		Redirect:  l.Redirect(),
		Forward:   l.Forward(),
	}
}

// Prefix returns the short URL without its code.
func (a *answer) Prefix() string { return strings.TrimSuffix(a.ShortURL, a.Code) }

// appendJSON appends the answer as encoding/json would encode it, with a line break and without
// the escapes for HTML. It takes no time for reflection.
func (a *answer) appendJSON(b []byte) ([]byte, error) {
	b = reply.AppendString(append(b, `{"code":`...), a.Code)
	b = reply.AppendString(append(b, `,"short_url":`...), a.ShortURL)
	b = reply.AppendString(append(b, `,"url":`...), a.URL)
	b, err := appendTime(append(b, `,"created_at":`...), a.CreatedAt)
	if err == nil && !a.ExpiresAt.IsZero() {
		b, err = appendTime(append(b, `,"expires_at":`...), a.ExpiresAt)
	}
	b = strconv.AppendBool(append(b, `,"editable":`...), a.Editable)
	b = strconv.AppendInt(append(b, `,"version":`...), a.Version, 10)
	b = strconv.AppendInt(append(b, `,"redirect":`...), int64(a.Redirect), 10)
	b = reply.AppendString(append(b, `,"forward":`...), string(a.Forward))
	return append(b, "}\n"...), err
}

func appendTime(b []byte, t time.Time) ([]byte, error) {
	b, err := t.AppendText(append(b, '"'))
	return append(b, '"'), err
}

// send sends the answer as JSON.
func (a *answer) send(w http.ResponseWriter, status int) error {
	const rest = 224 // the names, the times and the code of most answers
	body, err := a.appendJSON(make([]byte, 0, rest+len(a.ShortURL)+len(a.URL)))
	if err != nil {
		return err
	}
	return reply.Encoded(w, mediaJSON, status, body)
}

// formKey names the value in the echo.Context that holds the shortener.Request of a failed
// creation. The error page shows its fields again.
const formKey = "form"

// self returns the origin of this service. Each short URL begins with this origin.
func (p *public) self(c echo.Context) (destination.Origin, error) {
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
	tok, owned, err := p.admitCreation(c)
	if err != nil {
		return err
	}
	r, key, err := p.readCreation(c, owned)
	if err != nil {
		return err
	}
	r.Self, r.Owner = self, tok.ID
	link, existing, replayed, err := p.createOnce(c, r, key)
	if err != nil {
		c.Set(formKey, r)
		return p.suggest(c, r, err)
	}
	if replayed {
		c.Response().Header().Set("Idempotency-Replayed", "true")
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
	if owned {
		return p.sendLink(c, status, link, self)
	}
	return a.send(c.Response(), status)
}

// readCreation reads the body and the idempotency key of a creation. It refuses what only a token may send, unless owned is
// true.
func (p *public) readCreation(c echo.Context, owned bool) (r shortener.Request, key string, err error) {
	// MaxBytesReader closes the connection only through the ResponseWriter of net/http.
	if r, err = readFields(c.Response().Writer, c.Request()); err != nil {
		return r, "", err
	}
	if key, err = idempotencyKey(c.Request()); err != nil || owned {
		return r, key, err
	}
	r.MaxAge = p.limits.AnonymousMaxAge
	reserved := r.Owned()
	if key != "" {
		reserved = "Idempotency-Key"
	}
	if reserved != "" {
		return r, "", unauthorized("Only clients with a token may send " + reserved + ". " + sendBearer)
	}
	return r, "", nil
}

// createOnce creates a link, at most once if key is not empty. An alias that belongs to another link counts as a miss,
// because otherwise a client could find out with creations which codes exist.
func (p *public) createOnce(c echo.Context, r shortener.Request, key string) (link shortener.Link, existing, replayed bool, err error) {
	client := netip.Prefix{}
	if r.Alias != nil {
		client = clientPrefix(c.RealIP())
		if err := p.limits.misses.admit(client); err != nil {
			return shortener.Link{}, false, false, err
		}
	}
	ctx := c.Request().Context()
	if key == "" {
		link, existing, err = p.service.Create(ctx, r)
	} else {
		link, existing, replayed, err = p.service.CreateOnce(ctx, r, key)
	}
	if errors.Is(err, shortener.ErrAliasTaken) {
		p.limits.misses.count(client)
	}
	return link, existing, replayed, err
}
