package loadtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// maxAnswer is the maximum number of bytes that the client reads of an answer.
	maxAnswer = 64 << 10
	// idleTimeout is shorter than the idle timeout of any server. Otherwise a server could close
	// a connection at the moment when the client reuses it. The request would then fail although
	// the service works.
	idleTimeout = 2 * time.Second
)

// Client creates and reads links. It keeps connections alive, never sends a creation twice,
// never follows a redirect, and uses no proxy. It may be used concurrently.
type Client struct {
	service   string // the URL of the service, without a slash at its end
	timeout   time.Duration
	transport *http.Transport
}

// NewClient returns a client of a service such as http://127.0.0.1:8080. A request fails after
// timeout; 0 means [DefaultTimeout].
func NewClient(service string, timeout time.Duration) *Client {
	timeout = cmp.Or(timeout, DefaultTimeout)
	return &Client{
		service: strings.TrimSuffix(service, "/"),
		timeout: timeout,
		transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: timeout}).DialContext,
			MaxIdleConnsPerHost: DefaultInFlight,
			IdleConnTimeout:     idleTimeout,
			DisableCompression:  true,
		},
	}
}

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Create sends one request for a link to target and returns its outcome.
func (c *Client) Create(ctx context.Context, target string) Outcome {
	body, err := json.Marshal(map[string]string{"url": target})
	if err != nil {
		return Outcome{State: Unsent, Detail: err.Error()}
	}
	return c.Post(ctx, body)
}

// Post sends one creation with the given body and returns its outcome.
func (c *Client) Post(ctx context.Context, body []byte) Outcome {
	status, header, answer, err := c.do(ctx, http.MethodPost, "/shorten", body)
	var link struct {
		Code   string `json:"code"`
		Detail string `json:"detail"` // the detail of a problem document (RFC 9457)
	}
	_ = json.Unmarshal(answer, &link) // both members stay empty if the answer is not JSON
	switch {
	case unreached(err):
		return Outcome{State: Unsent, Detail: err.Error()}
	case err != nil:
		return Outcome{State: Unknown, Detail: err.Error()}
	case status == http.StatusCreated:
		return Outcome{State: Acknowledged, Code: link.Code}
	case status >= 400:
		why := strings.TrimSpace(statusText(status) + " " + link.Detail)
		return Outcome{State: Refused, Detail: why, RetryAfter: header.Get("Retry-After")}
	}
	return Outcome{State: Unknown, Detail: statusText(status) + " is not a valid answer to a creation"}
}

// Follow requests the link of code. It returns the status and the Location header of the answer.
func (c *Client) Follow(ctx context.Context, code string) (status int, location string, err error) {
	status, header, _, err := c.do(ctx, http.MethodGet, "/"+url.PathEscape(code), nil)
	return status, header.Get("Location"), err
}

// Healthy returns an error when the service does not answer /healthz with 200.
func (c *Client) Healthy(ctx context.Context) error {
	status, _, _, err := c.do(ctx, http.MethodGet, "/healthz", nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("GET /healthz: %s", statusText(status))
	}
	return err
}

// do sends one request and reads the whole answer.
func (c *Client) do(ctx context.Context, method, path string, body []byte) (int, http.Header, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.service+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	// Without GetBody the transport cannot repeat a request with a body.
	req.GetBody = nil
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = res.Body.Close() }() // the answer was read, or its error is returned
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("read the answer: %w", err)
	}
	return res.StatusCode, res.Header, answer, nil
}

// unreached reports whether a request failed before it had a connection.
func unreached(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

func statusText(status int) string {
	return fmt.Sprintf("%d %s", status, http.StatusText(status))
}
