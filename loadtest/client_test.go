package loadtest

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

func TestCreateMapsAnswersToStates(t *testing.T) {
	t.Parallel()
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   State
		code   string
	}{
		{"created", status(201, `{"code":"abc"}`), Acknowledged, "abc"},
		{"status 201 without a body", status(201, ""), Acknowledged, ""},
		{"existing link", status(200, `{"code":"abc"}`), Unknown, ""},
		{"redirect", func(w http.ResponseWriter, _ *http.Request) { redirect(w, "/elsewhere") }, Unknown, ""},
		{"bad request", status(400, ""), Refused, ""},
		{"unavailable", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			status(503, "")(w, nil)
		}, Refused, ""},
		{"the connection ends before the answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Unknown, ""},
		{"the connection ends within the answer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			status(201, `{"code":"abc"}`)(w, nil)
			panic(http.ErrAbortHandler)
		}, Unknown, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) > 1 {
					tt.answer(w, r)
					return
				}
				status(http.StatusOK, "")(w, r) // this answer opens the connection that the creation reuses
			}))
			t.Cleanup(server.Close)
			client := NewClient(server.URL, 0)
			t.Cleanup(client.Close)
			if err := client.Healthy(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := client.Create(t.Context(), "https://loadtest.example/")
			if got.State != tt.want || got.Code != tt.code {
				t.Errorf("got %+v, want %s %q", got, tt.want, tt.code)
			}
			if named := got.RetryAfter != ""; named != (tt.name == "unavailable") {
				t.Errorf("the outcome has the header Retry-After %q", got.RetryAfter)
			}
			if n := requests.Load(); n != 2 {
				t.Errorf("the client sent the creation %d times, want once", n-1)
			}
		})
	}
}

func TestCreateReturnsUnknownAfterTimeout(t *testing.T) {
	t.Parallel()
	hung := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hung }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hung) }) // runs before server.Close, which waits for handlers
	client := NewClient(server.URL, 50*time.Millisecond)
	t.Cleanup(client.Close)
	if got := client.Create(t.Context(), "https://loadtest.example/"); got.State != Unknown {
		t.Errorf("got %+v from a service that hangs, want unknown", got)
	}
}

func TestCreateReturnsUnsentWithoutConnection(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil { // after this, no server listens at the address
		t.Fatal(err)
	}
	client := NewClient("http://"+l.Addr().String(), 0)
	if got := client.Create(t.Context(), "https://loadtest.example/"); got.State != Unsent {
		t.Errorf("got %+v without a service, want unsent", got)
	}
}
