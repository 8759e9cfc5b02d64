package admin

import (
	"context"
	"io"
	"keypool/web/httpserver"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestEventsBeginWithTheHistory(t *testing.T) {
	t.Parallel()
	b := newBoard(t, 5)
	l := b.listen("")
	for header, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
		if got := l.head.Header.Get(header); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
	is := l.wantAbout()
	if is.Instance != "test" || *is.CapacityKeys != 1000000 || is.RestartBelow != 200000 || is.PageBelow != 100000 || is.HistorySeconds != 900 || is.Page == "" {
		t.Errorf("about: %+v", is)
	}
	l.want(5)
	for range 3 {
		b.sample(1)
		l.want(1)
	}
}

func TestEventsKeepFifteenMinutes(t *testing.T) {
	t.Parallel()
	b := newBoard(t, historyLength+100)
	l := b.listen("")
	l.wantAbout()
	if ids := l.want(historyLength); ids[0] != strconv.FormatInt(b.at.Add(-time.Duration(historyLength-1)*sampleInterval).UnixMilli(), 10) {
		t.Errorf("the oldest is of %s", ids[0])
	}
}

func TestEventsGoOnAfterTheLast(t *testing.T) {
	t.Parallel()
	b := newBoard(t, 10)
	l := b.listen("")
	l.wantAbout()
	ids := l.want(10)
	for last, missed := range map[string]int{
		ids[6]: 3, ids[8]: 1, "1": 10, "nonsense": 10, "-5": 10,
		strconv.FormatInt(b.at.Add(time.Hour).UnixMilli(), 10): 10, // of another clock
	} {
		again := b.listen(last)
		again.wantAbout()
		if got := again.want(missed); got[missed-1] != ids[9] {
			t.Errorf("after %s the newest is %s", last, got[missed-1])
		}
	}
	nothingMissed := b.listen(ids[9])
	nothingMissed.wantAbout()
	b.sample(1)
	nothingMissed.want(1)
}

// Ids grow whatever the clock does.
func TestEventsWhenTheClockIsPutBack(t *testing.T) {
	t.Parallel()
	b := newBoard(t, 2)
	b.at = b.at.Add(-time.Minute)
	b.sample(1)
	l := b.listen("")
	l.wantAbout()
	if ids := l.want(3); ids[2] <= ids[1] {
		t.Errorf("ids %v", ids)
	}
}

func TestEventsAreLimited(t *testing.T) {
	t.Parallel()
	b := newBoard(t, 1)
	var open []*listener
	for range maxStreams {
		l := b.listen("")
		l.wantAbout()
		open = append(open, l)
	}
	refused := b.listen("")
	body, err := io.ReadAll(refused.head.Body)
	if err != nil {
		t.Fatal(err)
	}
	if refused.head.StatusCode != http.StatusServiceUnavailable || refused.head.Header.Get("Retry-After") == "" ||
		!strings.Contains(string(body), "too-many-streams") {
		t.Errorf("one too many: %d %v %s", refused.head.StatusCode, refused.head.Header, body)
	}
	open[0].head.Body.Close()
	b.await(maxStreams - 1)
	b.listen("").wantAbout()
}

// Who does not read is dropped, and meanwhile nobody waits for him.
func TestEventsDropSlowReaders(t *testing.T) {
	t.Parallel()
	b := newBoard(t, historyLength)
	b.sendTimeout = 200 * time.Millisecond
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	b.await(1)
	l := b.listen("")
	l.wantAbout()
	l.want(historyLength)
	for b.streams.Load() > 1 { // more of it, until it is too much
		b.sample(historyLength)
		l.drain()
	}
	b.sample(1)
	l.drain() // it is not this one that is gone
}

// A stream outlives the limits for requests that end, and gets a sample each second.
func TestEventsOutliveTimeouts(t *testing.T) {
	t.Parallel()
	a := New(Config{Gatherer: prometheus.NewRegistry(), Status: full})
	server := httptest.NewUnstartedServer(nil)
	server.Config = httpserver.NewAdmin(a, slog.New(slog.DiscardHandler))
	server.Config.ReadTimeout, server.Config.WriteTimeout = 300*time.Millisecond, 300*time.Millisecond
	server.Start()
	t.Cleanup(server.Close)
	stop := run(t, a)
	defer stop()
	l := (&board{Handler: a, t: t, url: server.URL}).listen("")
	l.wantAbout()
	for range 3 {
		l.want(1)
	}
}

// The end of the samples ends each stream, so that a shutdown finds none to wait for.
func TestStopEndsEvents(t *testing.T) {
	t.Parallel()
	a := New(Config{Gatherer: prometheus.NewRegistry(), Status: full})
	server := httptest.NewUnstartedServer(nil)
	server.Config = httpserver.NewAdmin(a, slog.New(slog.DiscardHandler))
	server.Start()
	t.Cleanup(server.Close)
	stop := run(t, a)
	b := &board{Handler: a, t: t, url: server.URL}
	first, second := b.listen(""), b.listen("")
	first.wantAbout()
	second.wantAbout()
	first.want(1)
	stop()
	for {
		if _, ok := first.next(); !ok {
			break
		}
	}
	b.await(0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := server.Config.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

func TestEventsHead(t *testing.T) {
	t.Parallel()
	b := newBoard(t, 1)
	resp, err := http.Head(b.url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
}

// patientRecorder is a recorder with the write deadline of a connection.
type patientRecorder struct{ *httptest.ResponseRecorder }

func (patientRecorder) SetWriteDeadline(time.Time) error { return nil }

// Silence is broken by comments, which browsers pass over.
func TestEventsKeepAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := patientRecorder{httptest.NewRecorder()}
		ctx, cancel := context.WithTimeout(t.Context(), 2*keepAlive+keepAlive/2)
		defer cancel()
		s := &stream{w: w, control: http.NewResponseController(w), timeout: sendTimeout}
		if err := s.follow(ctx, about{}, newHistory(), 0); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(w.Body.String(), "\n\n:\n\n"); n != 1 || !strings.HasPrefix(w.Body.String(), "retry: 1000\n") ||
			strings.Count(w.Body.String(), ":\n\n") != 2 {
			t.Errorf("%q", w.Body.String())
		}
	})
}
