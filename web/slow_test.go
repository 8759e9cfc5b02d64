package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"keypool/shortener"
	"keypool/shortener/token"
	"keypool/web/httpserver"
)

// pipes is a listener of connections in memory. In a bubble of synctest, the deadlines of these connections pass without
// real waiting.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newPipes() *pipes { return &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.accepted <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// slowStore is a store whose calls take time. Tests use it in a bubble of synctest, in which time passes
// without waiting.
type slowStore struct {
	shortener.Store
	insert     time.Duration
	page       time.Duration
	fast       bool // whether every second page takes no time
	maxPerPage int  // maximum number of links in a page; 0 for no maximum
	failAt     int  // the Newest call with this number fails; 0 if none fails

	calls    int          // number of calls of Newest
	revoked  atomic.Bool  // whether the token of each request is revoked
	refusals atomic.Int64 // number of times that the token was refused
	outages  atomic.Int64 // number of further checks of the token that fail because of an outage
}

// revocable is like anyToken, but the test can revoke the token.
type revocable struct {
	anyToken
	store *slowStore
}

func (r revocable) Authenticate(ctx context.Context, bearer string) (token.Token, error) {
	if r.store.outages.Add(-1) >= 0 {
		return token.Token{}, token.ErrUnavailable
	}
	if r.store.revoked.Load() {
		r.store.refusals.Add(1)
		return token.Token{}, token.ErrRevoked
	}
	return r.anyToken.Authenticate(ctx, bearer)
}

var errBroken = errors.New("the store is broken")

func (s *slowStore) Insert(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
	time.Sleep(s.insert)
	return s.Store.Insert(ctx, links)
}

func (s *slowStore) Newest(ctx context.Context, selection shortener.Selection) ([]shortener.Link, string, error) {
	if s.calls++; !s.fast || s.calls%2 == 1 {
		time.Sleep(s.page)
	}
	if s.maxPerPage > 0 {
		selection.Limit = min(selection.Limit, s.maxPerPage)
	}
	if s.calls == s.failAt {
		return nil, "", errBroken
	}
	return s.Store.Newest(ctx, selection)
}

// withSlowStore calls f in a bubble of synctest, with a client of a listener and its store.
func withSlowStore(t *testing.T, f func(t *testing.T, c *http.Client, store *slowStore)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, store := newSlowSite(t)
		f(t, c, store)
	})
}

func newSlowSite(t *testing.T) (*http.Client, *slowStore) {
	t.Helper()
	slow := new(slowStore)
	service, _ := newService(t, func(s shortener.Store) shortener.Store {
		slow.Store = s
		return slow
	})
	server := httpserver.New(NewPublic(PublicConfig{Service: service, Tokens: revocable{store: slow}}), slog.New(slog.DiscardHandler))
	listener := newPipes()
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	transport := &http.Transport{DialContext: listener.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return &http.Client{Transport: transport}, slow
}

// incoming is an answer whose body the test reads. The body is closed when the test ends.
type incoming struct {
	status int
	header http.Header
	body   io.Reader
}

func begin(t *testing.T, c *http.Client, method, path, body string, headers ...string) incoming {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://keypool.test"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer x")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return incoming{resp.StatusCode, resp.Header, resp.Body}
}

// longLinks stores n links whose URLs are about a kilobyte long.
func (s *slowStore) longLinks(t *testing.T, n int) {
	t.Helper()
	links := make([]shortener.Link, n)
	for i := range links {
		links[i] = shortener.Link{
			Code: fmt.Sprintf("long%d", i), URL: fmt.Sprintf("https://go.dev/%d?%s", i, strings.Repeat("x", 1000)), Source: "pool", CreatedAt: time.Now().UTC(),
		}
	}
	if _, err := s.Insert(t.Context(), links); err != nil {
		t.Fatal(err)
	}
}

// readSlowly reads r in parts, with a pause after each part. The parameter part is the size of a part in
// bytes. readSlowly returns what it has read and the error that ended the read, such as io.EOF.
func readSlowly(r io.Reader, part int64, pause time.Duration) (string, error) {
	var got strings.Builder
	for {
		if _, err := io.CopyN(&got, r, part); err != nil {
			return got.String(), err
		}
		time.Sleep(pause)
	}
}
