package web

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"keypool/internal/sqlite"
	"keypool/migrations"
	"keypool/shortener"
	"keypool/web/httpserver"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The contract checks that these come where the document says; what is in them is
	// not its business.
	openapi3filter.RegisterBodyDecoder(mediaHTML, openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("image/x-icon", openapi3filter.FileBodyDecoder)
	goleak.VerifyTestMain(m)
}

// randomKeys is a supply without a pool.
type randomKeys struct{}

func (randomKeys) Next(context.Context, string, int) (shortener.Key, error) {
	return shortener.Key{Code: rand.Text()[:10], Source: "random"}, nil
}

// site is the public listener on the real service, on SQLite, over TCP.
type site struct {
	url      string
	server   *httptest.Server
	service  *shortener.Service
	store    shortener.Store
	registry *prometheus.Registry
	client   *http.Client // checks each exchange against the document, follows no redirect
	log      *syncBuffer
	router   *echo.Echo
}

// newService starts a service on a database of its own, on wrap of its store if
// that is not nil.
func newService(t testing.TB, wrap func(shortener.Store) shortener.Store) (*shortener.Service, shortener.Store) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "links.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := migrations.Up(t.Context(), db.Write, migrations.SQLite); err != nil {
		t.Fatal(err)
	}
	var store shortener.Store = shortener.NewSQLiteStore(db)
	if wrap != nil {
		store = wrap(store)
	}
	service := shortener.New(shortener.Config{Store: store, Keys: randomKeys{}})
	t.Cleanup(func() {
		// t.Context() has ended by now.
		if err := service.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return service, store
}

func newSite(t *testing.T, change func(*PublicConfig)) *site {
	t.Helper()
	s := &site{registry: prometheus.NewRegistry(), log: &syncBuffer{}}
	s.service, s.store = newService(t, nil)
	cfg := PublicConfig{Service: s.service, Metrics: NewMetrics(s.registry), Logger: slog.New(slog.NewTextHandler(s.log, nil))}
	if change != nil {
		change(&cfg)
	}
	s.router = NewPublic(cfg)
	server := httptest.NewUnstartedServer(nil)
	server.Config = httpserver.New(s.router, slog.New(slog.DiscardHandler))
	server.Start()
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
	})
	s.url, s.server = server.URL, server
	s.client = &http.Client{
		Transport:     newContract(t, transport),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

// response is an answer that was read to its end.
type response struct {
	status int
	header http.Header
	body   string
}

func (s *site) do(t *testing.T, method, path, body string, headers ...string) response {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	resp, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{resp.StatusCode, resp.Header, string(content)}
}

// shorten makes a link from a JSON body and gives it as it was answered.
func (s *site) shorten(t *testing.T, body string) answer {
	t.Helper()
	r := s.do(t, http.MethodPost, "/shorten", body, "Content-Type", mediaJSON)
	if r.status != http.StatusCreated {
		t.Fatalf("POST /shorten %s: status %d, %s", body, r.status, r.body)
	}
	return decode[answer](t, r.body)
}

func decode[T any](t *testing.T, body string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	return v
}

// expired is a link that ended before the test began.
func expired(code string) shortener.Link {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return shortener.Link{
		Code: code, URL: "https://example.com/", Source: shortener.SourceAlias,
		CreatedAt: now.Add(-2 * time.Hour), ExpiresAt: now.Add(-time.Hour),
	}
}

func (s *site) insert(t *testing.T, l shortener.Link) {
	t.Helper()
	if _, err := s.store.Insert(t.Context(), []shortener.Link{l}); err != nil {
		t.Fatal(err)
	}
}

// syncBuffer is a log that a test may read while the server writes.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
