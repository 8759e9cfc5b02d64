package web

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"keypool/shortener"
	"keypool/web/internal/media"
)

// The time limit for a part of a stream applies while the client receives the part, and not while the server searches
// for links. A long search may come before the first matching link, between two matching links, or after the last one.
func TestSlowSearchForMatchesDoesNotEndLinkStream(t *testing.T) {
	withSlowStore(t, func(t *testing.T, c *http.Client, store *slowStore) {
		store.longLinks(t, 100)
		store.page, store.maxPerPage = 1500*time.Millisecond, 1
		for query, want := range map[string]int{"?q=/77%3F": 1, "?q=8%3F": 10, "?q=none": 0} {
			for _, accept := range []string{media.NDJSON, media.CSV} {
				resp := begin(t, c, http.MethodGet, "/api/links"+query, "", "Accept", accept)
				body, err := io.ReadAll(resp.body)
				if n := strings.Count(string(body), "https://"); n != want || err != nil {
					t.Errorf("the stream %s of %s has %d links, want %d: %v", query, accept, n, want, err)
				}
			}
		}
	})
}

// If a token is revoked during a stream, the stream breaks off.
func TestLinkStreamEndsWhenTokenIsRevoked(t *testing.T) {
	withSlowStore(t, func(t *testing.T, c *http.Client, store *slowStore) {
		store.longLinks(t, 100)
		store.page, store.maxPerPage = 1500*time.Millisecond, 1
		body := bufio.NewReader(begin(t, c, http.MethodGet, "/api/links", "", "Accept", media.NDJSON).body)
		if _, err := body.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		store.revoked.Store(true)
		rest, err := io.ReadAll(body)
		if n := strings.Count(string(rest), "\n"); n > 2 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after the revocation, the stream has %d links and the error %v; want at most 2 and io.ErrUnexpectedEOF", n, err)
		}
	})
}

// If a token is revoked before the first link is found, the client gets a complete answer with status 401, even after a long
// search.
func TestLinkStreamWithoutLinksEndsWhenTokenIsRevoked(t *testing.T) {
	withSlowStore(t, func(t *testing.T, c *http.Client, store *slowStore) {
		store.longLinks(t, 100)
		store.page, store.maxPerPage = 1500*time.Millisecond, 1
		time.AfterFunc(30*time.Second, func() { store.revoked.Store(true) })
		resp := begin(t, c, http.MethodGet, "/api/links?q=none", "", "Accept", media.CSV)
		if resp.status != http.StatusUnauthorized {
			t.Errorf("status %d, want 401", resp.status)
		}
	})
}

// A link must not wait until the end of a long search. Here, every second page of the search takes no time, and
// only such a page has a link.
func TestLinkStreamSendsLinkDuringSearch(t *testing.T) {
	withSlowStore(t, func(t *testing.T, c *http.Client, store *slowStore) {
		store.longLinks(t, 100)
		store.page, store.maxPerPage, store.fast = 1500*time.Millisecond, 1, true
		began := time.Now()
		body := bufio.NewReader(begin(t, c, http.MethodGet, "/api/links?q=/98%3F", "", "Accept", media.NDJSON).body)
		if _, err := body.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited > 2*store.page {
			t.Errorf("the client gets the link after %v, want at most %v", waited, 2*store.page)
		}
		if rest, err := io.ReadAll(body); len(rest) > 0 || err != nil {
			t.Errorf("after the link, the stream has %d bytes and the error %v", len(rest), err)
		}
	})
}

// If the store fails before the first link is found, the client gets a complete answer with status 503, even after a
// long search.
func TestLinkStreamThatFailsBeforeFirstLinkAnswers503(t *testing.T) {
	withSlowStore(t, func(t *testing.T, c *http.Client, store *slowStore) {
		store.longLinks(t, 40)
		store.page, store.maxPerPage, store.failAt = time.Second, 1, 30
		resp := begin(t, c, http.MethodGet, "/api/links?q=none", "", "Accept", media.NDJSON)
		if resp.status != http.StatusServiceUnavailable || resp.header.Get("Retry-After") == "" {
			t.Errorf("status %d, want 503", resp.status)
		}
	})
}

// A HEAD request for a stream gets the headers at once, because they need no search.
func TestHEADRequestForLinkStreamReadsNoLinks(t *testing.T) {
	withSlowStore(t, func(t *testing.T, c *http.Client, store *slowStore) {
		store.page = time.Hour
		began := time.Now()
		resp := begin(t, c, http.MethodHead, "/api/links", "", "Accept", media.CSV)
		if resp.status != http.StatusOK || resp.header.Get("Content-Type") != media.CSV || time.Since(began) > 0 {
			t.Errorf("status %d (want 200) and %s after %v", resp.status, resp.header.Get("Content-Type"), time.Since(began))
		}
	})
}

// A client may receive a stream slowly. But if one part of the answer times out, the server disconnects
// the client.
func TestLinkStreamDisconnectsTooSlowClient(t *testing.T) {
	withSlowStore(t, func(t *testing.T, c *http.Client, store *slowStore) {
		const links = 600
		store.longLinks(t, links)
		for pause, complete := range map[time.Duration]bool{15 * time.Second: true, 45 * time.Second: false} {
			resp := begin(t, c, http.MethodGet, "/api/links", "", "Accept", media.NDJSON)
			got, err := readSlowly(resp.body, 64<<10, pause)
			if n := strings.Count(got, "\n"); (n == links && errors.Is(err, io.EOF)) != complete {
				t.Errorf("a client that reads 64 KiB in %v gets %d links of %d, error %v", pause, n, links, err)
			}
		}
	})
}

// protocols maps a protocol to the error that a client gets if the server breaks the answer off. In HTTP/1.0, an answer
// without a length ends with its connection, so only a reset shows that it is incomplete.
var protocols = map[string]error{"HTTP/1.1": io.ErrUnexpectedEOF, "HTTP/1.0": syscall.ECONNRESET}

// wantBroken reads an answer, which must have status 200 and break off.
func wantBroken(t *testing.T, conn net.Conn, want error) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); resp.StatusCode != http.StatusOK || !errors.Is(err, want) {
		t.Errorf("the answer has status %d and ends with %v, want 200 and %v", resp.StatusCode, err, want)
	}
}

func (s *site) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// newBrokenSite returns a listener whose store lists links with URLs of a kilobyte, and then fails.
func newBrokenSite(t *testing.T) *site {
	t.Helper()
	store := &slowStore{maxPerPage: 100, failAt: 2}
	service, _ := newService(t, func(s shortener.Store) shortener.Store {
		store.Store = s
		return store
	})
	store.longLinks(t, 200)
	return newSite(t, func(c *PublicConfig) { c.Service, c.Tokens = service, anyToken{} })
}

// If the store fails in the middle of a stream, the server breaks the answer off.
func TestLinkStreamBreaksOffIfStoreFails(t *testing.T) {
	t.Parallel()
	for protocol, want := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s := newBrokenSite(t)
			conn := s.dial(t)
			fmt.Fprintf(conn, "GET /api/links %s\r\nHost: x\r\nAuthorization: Bearer x\r\nAccept: application/x-ndjson\r\n\r\n", protocol)
			wantBroken(t, conn, want)
			if !strings.Contains(s.log.String(), errBroken.Error()) {
				t.Errorf("the log lacks the error: %s", s.log)
			}
		})
	}
}

// The metrics count an answer that breaks off like any other answer.
func TestMetricsCountAnswersThatBreakOff(t *testing.T) {
	t.Parallel()
	s := newBrokenSite(t)
	conn := s.dial(t)
	fmt.Fprint(conn, "GET /api/links HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\nAccept: text/csv\r\n\r\n")
	wantBroken(t, conn, io.ErrUnexpectedEOF)
	var got dto.Metric
	if err := child(s.metrics.requests, "/api/links", http.MethodGet, http.StatusOK).Write(&got); err != nil || got.GetHistogram().GetSampleCount() != 1 {
		t.Errorf("http_request_duration_seconds counts %d requests, want 1: %v", got.GetHistogram().GetSampleCount(), err)
	}
}
