package api

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"keypool/web/internal/reply"
)

// partTimeout is how long a client may take to receive one part of an answer.
const partTimeout = 20 * time.Second

// parts sends an answer in parts. The handler writes the next part into the Buffer and calls send. The time limit of a
// part begins with this call. So a client must read at a minimum speed, but the server may take any time to produce the
// next part. If a handler fails after its first part, the connection is broken (see package problem).
type parts struct {
	bytes.Buffer
	w          http.ResponseWriter
	connection *http.ResponseController
}

// newParts sets the headers of an answer with status 200.
func newParts(c echo.Context, mediaType string) *parts {
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, mediaType)
	h.Set(echo.HeaderXContentTypeOptions, "nosniff")
	// The controller uses the writer of net/http, because the method Flush of echo.Response returns no error.
	return &parts{w: c.Response(), connection: http.NewResponseController(c.Response().Writer)}
}

// send sends the next part, which may be empty. If the part cannot be sent, or not in time, the
// error wraps reply.ErrNotSent.
func (p *parts) send() error {
	err := p.allow()
	if err == nil && p.Len() > 0 {
		if _, err = p.WriteTo(p.w); err == nil {
			err = p.connection.Flush()
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", reply.ErrNotSent, err)
	}
	return nil
}

// allow gives the client partTimeout, from now on, to receive what the server sends.
func (p *parts) allow() error {
	return p.connection.SetWriteDeadline(time.Now().Add(partTimeout))
}
