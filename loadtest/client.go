package loadtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// maxAnswer is the maximum number of bytes that the client reads of an answer.
	maxAnswer = 64 << 10
	// idleTimeout must be shorter than the idle timeout of the server. Otherwise the server could close a
	// connection at the moment when the client reuses it. The request would then fail although the service
	// works.
	idleTimeout = 2 * time.Second
)

// Client creates and reads links. It keeps connections alive, never sends a creation twice,
// never follows a redirect, and uses no proxy. It may be used concurrently.
type Client struct {
	service   string // the URL of the service, without a slash at its end
	timeout   time.Duration
	transport *http.Transport
}

// NewClient returns a client of a service such as http://127.0.0.1:8080. A request fails if it takes longer
// than the given timeout; 0 means [DefaultTimeout].
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

// Create sends one creation, whose link leads to target, and returns its outcome.
func (c *Client) Create(ctx context.Context, target string) Outcome {
	body, err := json.Marshal(map[string]string{"url": target})
	if err != nil {
		return Outcome{State: Unsent, Detail: err.Error()}
	}
	return c.Post(ctx, body)
}

// Post sends one creation with the given body and returns its outcome.
func (c *Client) Post(ctx context.Context, body []byte) Outcome {
	answer, err := c.Send(ctx, http.MethodPost, "/shorten", nil, body)
	var link struct {
		Code   string `json:"code"`
		Detail string `json:"detail"` // the detail of a problem document (RFC 9457)
	}
	_ = json.Unmarshal(answer.Body, &link) // both members stay empty if the answer is not JSON
	switch {
	case unreached(err):
		return Outcome{State: Unsent, Detail: err.Error()}
	case err != nil:
		return Outcome{State: Unknown, Detail: err.Error()}
	case answer.Status == http.StatusCreated:
		return Outcome{State: Acknowledged, Code: link.Code}
	case answer.Status >= 400:
		why := strings.TrimSpace(statusText(answer.Status) + " " + link.Detail)
		return Outcome{State: Refused, Detail: why, RetryAfter: answer.Header.Get("Retry-After")}
	}
	return Outcome{State: Unknown, Detail: statusText(answer.Status) + " is not a valid answer to a creation"}
}

// Follow requests the link of code. It returns the status and the Location header of the answer.
func (c *Client) Follow(ctx context.Context, code string) (status int, location string, err error) {
	answer, err := c.Send(ctx, http.MethodGet, "/"+url.PathEscape(code), nil, nil)
	return answer.Status, answer.Header.Get("Location"), err
}

// Healthy returns an error when the service does not answer /healthz with 200.
func (c *Client) Healthy(ctx context.Context) error {
	answer, err := c.Send(ctx, http.MethodGet, "/healthz", nil, nil)
	if err == nil && answer.Status != http.StatusOK {
		err = fmt.Errorf("GET /healthz: %s", statusText(answer.Status))
	}
	return err
}

// Answer is the answer to one request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // the body, or its first 64 KiB
}

// Send sends one request and reads the answer. It adds the fields of header to the request. The
// Content-Type of a body is JSON, or the Content-Type in header if header has one. If the connection ends
// before the answer is complete, Send returns an error.
func (c *Client) Send(ctx context.Context, method, path string, header http.Header, body []byte) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.service+path, bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(req.Header, header)
	// Without GetBody, the transport cannot repeat a request that has a body.
	req.GetBody = nil
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = res.Body.Close() }() // the answer was read, or its error is returned
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return Answer{}, fmt.Errorf("read the answer: %w", err)
	}
	return Answer{res.StatusCode, res.Header, answer}, nil
}

// unreached reports whether a request failed before it had a connection.
func unreached(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

func statusText(status int) string {
	return fmt.Sprintf("%d %s", status, http.StatusText(status))
}
