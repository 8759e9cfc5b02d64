package app

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// webhook is somebody who takes alerts, or does not. Each try is recorded when it comes.
type webhook struct {
	listener net.Listener
	server   *http.Server
	tries    chan string // bodies, in the order in which they came
	leave    chan struct{}

	mu     sync.Mutex
	answer int // 0: it hangs until the other side gives up
}

func newWebhook(t *testing.T, answer int) *webhook {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveWebhook(t, l, answer)
}

func serveWebhook(t *testing.T, l net.Listener, answer int) *webhook {
	t.Helper()
	h := &webhook{listener: l, tries: make(chan string, 1000), leave: make(chan struct{}), answer: answer}
	h.server = &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.server.Serve(l)
	}()
	t.Cleanup(func() {
		close(h.leave)
		h.server.Close()
		<-done
	})
	return h
}

func (h *webhook) url() string { return "http://" + h.listener.Addr().String() + "/T0K3N?key=S3CR3T" }

func (h *webhook) becomes(answer int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = answer
}

func (h *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	h.mu.Lock()
	answer := h.answer
	h.mu.Unlock()
	h.tries <- body.String()
	if answer == 0 {
		select {
		case <-r.Context().Done():
		case <-h.leave:
		}
		return
	}
	w.WriteHeader(answer)
}

// next is the next try, which is awaited for longer than the longest gap of a short test.
func (h *webhook) next(t *testing.T) (a alert) {
	t.Helper()
	select {
	case body := <-h.tries:
		if err := json.Unmarshal([]byte(body), &a); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("no alert came")
	}
	return a
}
