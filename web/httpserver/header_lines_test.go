package httpserver

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// The limit of the lines of a header holds for each request of a connection, however the client divides its bytes. The lines
// of bodies do not count.
func TestEachHeaderOfConnectionHasLimitedNumberOfLines(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limits := NewConnections(ConnectionLimits{Total: 10, Client: func(netip.Addr) (netip.Prefix, bool) { return netip.Prefix{}, false }}, prometheus.NewRegistry(), log)
	server := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusNoContent)
	}), log)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(limits.Limit(listener)) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	request := func(lines int) string {
		header := "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n" + strings.Repeat("x:\r\n", lines-2) + "\r\n"
		if lines > maxHeaderLines {
			return header // bytes that the server does not read would reset the connection before the answer is read
		}
		return header + strings.Repeat("\n", 500)
	}
	for _, step := range []int{1, 7, 1 << 20} { // bytes that the client sends at a time
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		answers := bufio.NewReader(conn)
		for _, tt := range []struct{ lines, status int }{{maxHeaderLines, 204}, {2, 204}, {maxHeaderLines, 204}, {maxHeaderLines + 1, 431}} {
			for text := request(tt.lines); text != ""; text = text[min(step, len(text)):] {
				if _, err := io.WriteString(conn, text[:min(step, len(text))]); err != nil && tt.status == 204 {
					t.Fatal(err)
				}
			}
			answer, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatalf("%d lines, %d bytes at a time: %v", tt.lines, step, err)
			}
			answer.Body.Close()
			if answer.StatusCode != tt.status {
				t.Errorf("%d lines, %d bytes at a time: status %d, want %d", tt.lines, step, answer.StatusCode, tt.status)
			}
		}
		conn.Close()
	}
}
