package api

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"keypool/shortener/destination"
	"keypool/shortener/service"
	"keypool/web/internal/media"
	"keypool/web/internal/problem"
	"keypool/web/internal/reply"
)

const (
	// streamPart is the number of links that a stream sends at once.
	streamPart = 500
	// streamTimeout is how long a client may take to receive one part.
	streamTimeout = 20 * time.Second
)

// newLinkWriter returns a writer of links in the form of a media type.
func newLinkWriter(w io.Writer, mediaType string) (linkWriter, error) {
	if mediaType == media.CSV {
		return newCSVLines(w)
	}
	return newJSONLines(w), nil
}

// streamLinks sends all links that q selects. If links cannot be read after the answer has begun, it breaks the
// connection, so that the client does not take a part of the list for the whole list.
func (a *API) streamLinks(c echo.Context, actor service.Actor, q listQuery, self destination.Origin, mediaType string) error {
	if q.paged {
		return problem.Malformed("A stream contains all links. Send limit and cursor only with Accept: " + media.JSON + ".")
	}
	w := c.Response()
	connection := http.NewResponseController(w)
	w.Header().Set(echo.HeaderContentType, mediaType)
	w.Header().Set(echo.HeaderXContentTypeOptions, "nosniff")
	lines, err := newLinkWriter(w, mediaType)
	if err != nil {
		return err
	}
	sent := 0
	for link, err := range a.service.All(c.Request().Context(), actor, q.filter) {
		if err != nil && !w.Committed {
			return err
		}
		if err != nil {
			a.log.Warn("a list of links ended early", "error", err)
			panic(http.ErrAbortHandler)
		}
		if sent%streamPart == 0 {
			if err := connection.SetWriteDeadline(time.Now().Add(streamTimeout)); err != nil {
				return err
			}
		}
		sent++
		if err := lines.write(a.ownedLink(link, self)); err != nil {
			return fmt.Errorf("%w: %w", reply.ErrNotSent, err)
		}
	}
	return lines.flush()
}
