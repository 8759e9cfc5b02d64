package wrk

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"
)

// Exchange is one request and the answer that it must have.
type Exchange struct {
	Method, URL string
	Header      http.Header
	Body        string
	Status      int
	Location    string // "" when it does not matter
}

// exchangeTimeout bounds one exchange.
const exchangeTimeout = 10 * time.Second

// Try makes the exchange and fails when the answer is another one.
func (e Exchange) Try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, e.Method, e.URL, bytes.NewBufferString(e.Body))
	if err != nil {
		return err
	}
	for name, values := range e.Header {
		req.Header[name] = values
	}
	req.Close = true
	res, err := http.DefaultTransport.RoundTrip(req) // goes where no redirect points
	if err != nil {
		return err
	}
	if err := res.Body.Close(); err != nil {
		return err
	}
	if res.StatusCode != e.Status || (e.Location != "" && res.Header.Get("Location") != e.Location) {
		return fmt.Errorf("%s %s: %s to %q, want %d to %q",
			e.Method, e.URL, res.Status, res.Header.Get("Location"), e.Status, e.Location)
	}
	return nil
}
