package admin

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/web/httpserver"
)

func TestEventStreamStartsWithHistory(t *testing.T) {
	t.Parallel()
	b := newBoard(t, 5)
	l := b.listen("")
	for header, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
		if got := l.head.Header.Get(header); got != want {
			t.Errorf("the header %s is %q, want %q", header, got, want)
		}
	}
	is := l.wantAbout()
	if is.Instance != "test" || *is.CapacityKeys != 1000000 || is.RestartBelow != 200000 || is.PageBelow != 100000 || is.HistorySeconds != 900 || is.Page == "" {
		t.Errorf("the event about is %+v", is)
	}
	l.want(5)
	for range 3 {
		b.sample(1)
		l.want(1)
	}
}

func TestHistoryKeepsSamplesOfLastFifteenMinutes(t *testing.T) {
	t.Parallel()
	b := newBoard(t, historyLength+100)
	l := b.listen("")
	l.wantAbout()
	if ids := l.want(historyLength); ids[0] != strconv.FormatInt(b.at.Add(-time.Duration(historyLength-1)*sampleInterval).UnixMilli(), 10) {
		t.Errorf("the oldest sample has the id %s", ids[0])
	}
}

func TestEventStreamResumesAfterLastEventID(t *testing.T) {
	t.Parallel()
	b := newBoard(t, 10)
	l := b.listen("")
	l.wantAbout()
	ids := l.want(10)
	for last, missed := range map[string]int{
		ids[6]: 3, ids[8]: 1, "1": 10, "nonsense": 10, "-5": 10,
		strconv.FormatInt(b.at.Add(time.Hour).UnixMilli(), 10): 10, // from another clock
	} {
		again := b.listen(last)
		again.wantAbout()
		if got := again.want(missed); got[missed-1] != ids[9] {
			t.Errorf("after Last-Event-ID %s the newest sample has the id %s", last, got[missed-1])
		}
	}
	upToDate := b.listen(ids[9])
	upToDate.wantAbout()
	b.sample(1)
	upToDate.want(1)
}

// If the ids did not increase, a dashboard would ignore the samples. If the ids increased by less than an interval, the
// charts would stand still until the clock reaches the newest id again.
func TestEventIDsAdvanceByOneIntervalWhenClockIsSetBack(t *testing.T) {
	t.Parallel()
	b := newBoard(t, 2)
	before := b.at
	b.at = b.at.Add(-time.Minute)
	b.sample(2)
	l := b.listen("")
	l.wantAbout()
	var want []string
	for i := range int64(4) {
		want = append(want, strconv.FormatInt(before.UnixMilli()+(i-1)*sampleInterval.Milliseconds(), 10))
	}
	if got := l.want(4); !slices.Equal(got, want) {
		t.Errorf("the ids are %v, want %v", got, want)
	}
}

func TestEventStreamsBeyondLimitAreRefused(t *testing.T) {
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
		t.Errorf("a stream beyond the limit is answered with %d %v %s, want 503 with Retry-After", refused.head.StatusCode, refused.head.Header, body)
	}
	open[0].head.Body.Close()
	b.await(maxStreams - 1)
	b.listen("").wantAbout()
}

// A slow client is disconnected and delays no other client.
func TestEventStreamDisconnectsSlowClient(t *testing.T) {
	t.Parallel()
	b := newBoard(t, historyLength)
	b.sendTimeout = 3 * time.Second // even on a slow machine, the other client reads within this time
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
	for b.streams.Load() > 1 { // until the buffers of the slow client are full and the server disconnects it
		b.sample(historyLength)
		l.drain()
	}
	b.sample(1)
	l.drain() // the other client is still connected
}

// A stream continues after the timeouts of the server and gets a sample each second.
func TestEventStreamContinuesAfterServerTimeouts(t *testing.T) {
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
		l.wantSome()
	}
}

// The end of Run ends each stream, so a shutdown does not wait for streams.
func TestStoppedDashboardClosesEventStreams(t *testing.T) {
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
	first.wantSome()
	stop()
	for {
		if _, ok := first.next(); !ok {
			break
		}
	}
	b.await(0)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := server.Config.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

func TestEventsRouteAcceptsMethodHEAD(t *testing.T) {
	t.Parallel()
	b := newBoard(t, 1)
	resp, err := http.Head(b.url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD /events has status %d (want 200) and header %v", resp.StatusCode, resp.Header)
	}
}

// deadlineRecorder is a recorder that accepts write deadlines, as connections do.
type deadlineRecorder struct{ *httptest.ResponseRecorder }

func (deadlineRecorder) SetWriteDeadline(time.Time) error { return nil }

// Without samples the stream sends comments, which browsers ignore.
func TestEventStreamWithoutSamplesSendsComments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := deadlineRecorder{httptest.NewRecorder()}
		ctx, cancel := context.WithTimeout(t.Context(), 2*keepAlive+keepAlive/2)
		defer cancel()
		s := &stream{w: w, control: http.NewResponseController(w), timeout: sendTimeout}
		if err := s.follow(ctx, about{}, newHistory(), 0); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(w.Body.String(), "\n\n:\n\n"); n != 1 || !strings.HasPrefix(w.Body.String(), "retry: 1000\n") ||
			strings.Count(w.Body.String(), ":\n\n") != 2 {
			t.Errorf("the stream contains %q, want comments", w.Body.String())
		}
	})
}
