package httpserver

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// serveLimited serves h on limited connections until the end of the test. It returns the address.
func serveLimited(t *testing.T, h http.HandlerFunc) (addr string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limits := ConnectionLimits{Total: 10, Client: func(netip.Addr) (netip.Prefix, bool) { return netip.Prefix{}, false }}
	server := New(h, log)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(NewConnections(limits, prometheus.NewRegistry(), log).Limit(listener)) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// TestErrorAnswersOfNetHTTPBecomeProblems sends requests that net/http itself answers with an
// error, and one request that the handler answers with an error. The answer of the handler stays as
// it is.
func TestErrorAnswersOfNetHTTPBecomeProblems(t *testing.T) {
	t.Parallel()
	addr := serveLimited(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "of the handler") // the test reads this answer
	})
	for _, tt := range []struct {
		request string
		status  int
		problem bool
	}{
		{"GET / HTTP/1.1\r\n\r\n", 400, true},
		{"GET\r\n\r\n", 400, true},
		{"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431, true},
		{"GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("x:\r\n", 100) + "\r\n", 431, true},
		{"GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("x:\r\n", 99) + "\r\n", 400, false},
		{"GET / HTTP/1.1\nHost: a\n" + strings.Repeat("x:\n", 100) + "\n", 431, true},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n" + strings.Repeat("\n", 1000), 400, false},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501, true},
		{"GET / HTTP/9.9\r\nHost: a\r\n\r\n", 505, true},
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, false},
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, tt.request) // the server may answer before it has read everything
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%.30q: %v", tt.request, err)
		}
		var problem struct {
			Type   string
			Status int
		}
		err = json.NewDecoder(answer.Body).Decode(&problem)
		isProblem := err == nil && problem.Status == tt.status && problem.Type == "urn:keypool:problem:malformed" &&
			answer.Header.Get("Content-Type") == "application/problem+json"
		if answer.StatusCode != tt.status || isProblem != tt.problem {
			t.Errorf("%.30q is answered with %d and %+v (error %v), want %d and a problem: %v", tt.request, answer.StatusCode, problem, err, tt.status, tt.problem)
		}
		_ = answer.Body.Close() // it was read
		_ = conn.Close()
	}
}
