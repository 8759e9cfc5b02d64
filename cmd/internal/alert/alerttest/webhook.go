// Package alerttest provides a webhook for tests of alerts.
package alerttest

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Hang is an answer that makes the webhook leave each request unanswered until the client
// cancels the request or the test ends.
const Hang = 0

// Alert is the JSON document that a webhook receives.
type Alert struct {
	State         string    `json:"state"`
	Previous      string    `json:"previous"`
	PoolKeys      *int64    `json:"pool_keys"`
	CapacityKeys  int64     `json:"capacity_keys"`
	RunwaySeconds *float64  `json:"runway_seconds"`
	Instance      string    `json:"instance"`
	At            time.Time `json:"at"`
}

// Webhook is a receiver of alerts. It records each attempt on arrival.
type Webhook struct {
	Attempts chan string // request bodies in the order of arrival

	listener net.Listener
	server   *http.Server
	leave    chan struct{}

	mu     sync.Mutex
	answer int
}

// New starts a webhook that runs until the test ends. The parameter answer is the status of the webhook's
// answers, or Hang.
func New(t *testing.T, answer int) *Webhook {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return Serve(t, l, answer)
}

// Serve is like [New] but uses the listener l. The webhook closes l when the test ends.
func Serve(t *testing.T, l net.Listener, answer int) *Webhook {
	t.Helper()
	h := &Webhook{listener: l, Attempts: make(chan string, 1000), leave: make(chan struct{}), answer: answer}
	h.server = &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.server.Serve(l) // returns http.ErrServerClosed at the end of the test
	}()
	t.Cleanup(func() {
		close(h.leave)
		_ = h.server.Close() // closes the listener; its error does not affect the test
		<-done
	})
	return h
}

// URL returns the address of the webhook. It contains the secrets T0K3N and S3CR3T.
func (h *Webhook) URL() string { return "http://" + h.listener.Addr().String() + "/T0K3N?key=S3CR3T" }

// Answer sets the status of the answers to later attempts.
func (h *Webhook) Answer(status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = status
}

func (h *Webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body) // an incomplete body is not valid JSON, so the method Next reports it
	h.mu.Lock()
	answer := h.answer
	h.mu.Unlock()
	h.Attempts <- body.String()
	if answer == Hang {
		select {
		case <-r.Context().Done():
		case <-h.leave:
		}
		return
	}
	w.WriteHeader(answer)
}

// Next waits for the next attempt and returns its alert. The test fails if no attempt arrives
// within two minutes.
func (h *Webhook) Next(t *testing.T) (a Alert) {
	t.Helper()
	select {
	case body := <-h.Attempts:
		if err := json.Unmarshal([]byte(body), &a); err != nil {
			t.Fatalf("alert is not JSON: %v in %s", err, body)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("no alert within two minutes")
	}
	return a
}
