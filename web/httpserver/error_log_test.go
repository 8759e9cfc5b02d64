package httpserver

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"keypool/internal/testenv/logbuffer"
)

func newLog() (*slog.Logger, *logbuffer.Buffer) {
	var log logbuffer.Buffer
	return slog.New(slog.NewTextHandler(&log, nil)), &log
}

func TestPanicOfHandlerIsLoggedAtLevelError(t *testing.T) {
	t.Parallel()
	logger, log := newLog()
	server := httptest.NewUnstartedServer(nil)
	server.Config = New(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("broken handler") }), logger)
	server.Start()
	if resp, err := server.Client().Get(server.URL); err == nil {
		resp.Body.Close()
		t.Error("a handler that panicked answered")
	}
	server.Close() // waits until the connection is closed; then the log line is complete
	if got := log.String(); strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, "broken handler") {
		t.Errorf("the log is %q, want one line at level ERROR with the panic", got)
	}
}

// fullListener fails like a listener whose process has too many open files. It ends after a number
// of failures.
type fullListener struct{ failures int }

func (l *fullListener) Accept() (net.Conn, error) {
	if l.failures == 0 {
		return nil, io.EOF
	}
	l.failures--
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
}

func (l *fullListener) Close() error   { return nil }
func (l *fullListener) Addr() net.Addr { return &net.TCPAddr{} }

func TestAcceptErrorsAreLoggedAtMostOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, log := newLog()
		server := New(http.NotFoundHandler(), logger)
		start := time.Now()
		if err := server.Serve(&fullListener{failures: 90}); !errors.Is(err, io.EOF) { // net/http waits up to a second after each failure
			t.Fatal(err)
		}
		if got := log.String(); strings.Count(got, "\n") != 2 || strings.Count(got, "level=WARN") != 2 {
			t.Errorf("in %v the listener logged %q, want two lines at level WARN", time.Since(start), got)
		}
	})
}

func TestErrorsOfClientsAreLoggedAtLevelDebug(t *testing.T) {
	t.Parallel()
	logger, log := newLog()
	New(http.NotFoundHandler(), logger).ErrorLog.Print("http: TLS handshake error from 192.0.2.1:1: EOF")
	if got := log.String(); got != "" {
		t.Errorf("the log is %q, want no line above level DEBUG", got)
	}
}
