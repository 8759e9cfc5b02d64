package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"keypool/shortener/destination"
	"keypool/shortener/service"
	"keypool/shortener/token"
	"keypool/web/internal/media"
	"keypool/web/internal/problem"
)

const (
	// A stream writes links to a buffer. It sends the buffer, and then checks the token, in two cases:
	//
	//   - after a link, if the buffer has at least streamPart bytes;
	//   - after a page of the search, if streamInterval has passed since the last check of the token. If a link waited
	//     longer in the buffer, a proxy could close the connection, because no data arrives.
	//
	// In the second case, the stream checks the token even if it has no link to send.
	streamPart     = 64 << 10
	streamInterval = time.Second
)

// newLinkWriter returns a writer of links in the form of a media type.
func newLinkWriter(w io.Writer, mediaType string) (linkWriter, error) {
	if mediaType == media.CSV {
		return newCSVLines(w)
	}
	return newJSONLines(w), nil
}

// streamLinks sends all links that q selects. It fails if the links cannot be read, or if the token is revoked, is renewed
// or expires. If a part of the answer was sent already, the failure breaks the connection, so that the client knows that
// the list is incomplete.
func (a *API) streamLinks(c echo.Context, actor service.Actor, q listQuery, self destination.Origin, mediaType string) error {
	if q.paged {
		return problem.Malformed("A stream contains all links. Send the parameters limit and cursor only with Accept: " + media.JSON + ".")
	}
	out := newParts(c, mediaType)
	if c.Request().Method == http.MethodHead {
		return c.NoContent(http.StatusOK)
	}
	lines, err := newLinkWriter(out, mediaType)
	if err != nil {
		return err
	}
	checked, written := time.Now(), false // written: whether lines has links that were not sent
	next := func() error {
		if written {
			if err := sendLines(lines, out); err != nil {
				return err
			}
		}
		checked, written = time.Now(), false
		if err := a.mayStream(c); err != nil {
			return errors.Join(err, out.allow())
		}
		return nil
	}
	for links, err := range a.service.All(c.Request().Context(), actor, q.filter) {
		if err != nil {
			return errors.Join(fmt.Errorf("send all links: %w", err), out.allow())
		}
		for _, link := range links {
			if err := lines.write(a.ownedLink(link, self)); err != nil {
				return err
			}
			written = true
			if out.Len() >= streamPart {
				if err := next(); err != nil {
					return err
				}
			}
		}
		if time.Since(checked) >= streamInterval {
			if err := next(); err != nil {
				return err
			}
		}
	}
	return sendLines(lines, out)
}

// mayStream fails if the token of the request was revoked or renewed, or has expired, since the stream began.
func (a *API) mayStream(c echo.Context) error {
	if _, err := a.manager(c, token.ScopeEdit, token.ScopeRead); err != nil {
		return fmt.Errorf("send all links: %w", err)
	}
	return nil
}

// sendLines sends the lines that were written.
func sendLines(lines linkWriter, out *parts) error {
	if err := lines.flush(); err != nil {
		return err
	}
	return out.send()
}
