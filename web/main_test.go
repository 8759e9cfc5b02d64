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
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"keypool/shortener"
	"keypool/shortener/service"
	"keypool/shortener/sqlitestore"
	"keypool/shortener/storetest"
	"keypool/web/httpserver"
	"keypool/web/internal/media"
	"keypool/web/internal/reply"
)

func TestMain(m *testing.M) {
	// With these decoders, the type contract can check answers with these media types. The content
	// of such an answer is not checked.
	openapi3filter.RegisterBodyDecoder(media.HTML, openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder(media.NDJSON, openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("image/svg+xml", openapi3filter.PlainBodyDecoder)
	for _, media := range []string{"image/x-icon", "image/png"} {
		openapi3filter.RegisterBodyDecoder(media, openapi3filter.FileBodyDecoder)
	}
	goleak.VerifyTestMain(m)
}

// randomKeys makes random keys without a pool.
type randomKeys struct{}

func (randomKeys) Next(context.Context, string, int) (shortener.Key, error) {
	return shortener.Key{Code: rand.Text()[:10], Source: "random"}, nil
}

// site is a public listener over TCP that uses the real service and SQLite.
type site struct {
	url      string
	server   *httptest.Server
	service  *service.Service
	store    shortener.Store
	registry *prometheus.Registry
	metrics  *Metrics
	client   *http.Client // checks each exchange against openapi.yaml and follows no redirect
	log      *syncBuffer
	router   *echo.Echo
}

// newService starts a service with its own database. If wrap is not nil, the service uses the store that
// wrap returns.
func newService(t testing.TB, wrap func(shortener.Store) shortener.Store) (*service.Service, shortener.Store) {
	t.Helper()
	var store shortener.Store = sqlitestore.New(storetest.SQLite(t), storetest.Plain())
	if wrap != nil {
		store = wrap(store)
	}
	service := service.New(service.Config{Store: store, Keys: randomKeys{}})
	t.Cleanup(func() {
		// t.Context() has already ended.
		if err := service.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return service, store
}

// withClockStopped calls f in a bubble of synctest. The clock of a bubble stands still while a goroutine
// waits for the network, as the listener of a site always does. So no time limit of the service passes and no limiter
// regains a request, however slow the machine is. f must not wait for a timer, because no timer fires. A site
// with tokens cannot run in f, because such a site waits between two polls of the tokens.
func withClockStopped(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

func newSite(t *testing.T, change func(*PublicConfig)) *site {
	t.Helper()
	s := &site{registry: prometheus.NewRegistry(), log: &syncBuffer{}}
	s.service, s.store = newService(t, nil)
	s.metrics = NewMetrics(s.registry)
	cfg := PublicConfig{Service: s.service, Metrics: s.metrics, Logger: slog.New(slog.NewTextHandler(s.log, nil))}
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

// Limits that the tests reach. docs/configuration.md and openapi.yaml state the same limits.
const (
	missBurst    = 200
	maxBody      = 16 << 10
	maxBulkLines = 10_000
	maxBulkBody  = 16 << 20
	maxBulks     = 4 // bulk requests at the same time
)

// response is a complete answer.
type response struct {
	status   int
	header   http.Header
	body     string
	repeated bool // whether the first answer was 503; the first request may have had an effect
}

// created reports whether the request created a link. If do repeated the request, the first request may have
// created a link with an alias. The status of the repetition is then 200.
func (r response) created() bool {
	return r.status == http.StatusCreated || r.repeated && r.status == http.StatusOK
}

// The service ends a commit, a look-up or a poll of the tokens after a limit of less than a second, and
// answers 503. On a slow machine, such an answer is correct. Therefore the tests repeat the request, for at most
// the time patience. An answer 503 that takes less than slowAnswer has another cause, so no test repeats its request.
const (
	slowAnswer = 500 * time.Millisecond
	patience   = 2 * time.Minute
)

// do sends a request. It repeats the request if the service ran out of time.
func (s *site) do(t *testing.T, method, path, body string, headers ...string) response {
	t.Helper()
	for start, repeated := time.Now(), false; ; repeated = true {
		began := time.Now()
		r := s.once(t, method, path, body, headers...)
		r.repeated = repeated
		if r.status != http.StatusServiceUnavailable || time.Since(began) < slowAnswer || time.Since(start) > patience {
			return r
		}
	}
}

// once sends a request and does not repeat it.
func (s *site) once(t *testing.T, method, path, body string, headers ...string) response {
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
	return response{status: resp.StatusCode, header: resp.Header, body: string(content)}
}

// create posts a JSON body to /shorten.
func (s *site) create(t *testing.T, body string, headers ...string) response {
	t.Helper()
	return s.do(t, http.MethodPost, "/shorten", body, append([]string{"Content-Type", media.JSON}, headers...)...)
}

// wantProblem fails the test unless the answer is the problem with this status and name.
func (s *site) wantProblem(t *testing.T, r response, status int, name string) reply.Problem {
	t.Helper()
	p := decode[reply.Problem](t, r.body)
	if r.status != status || p.Type != reply.TypePrefix+name {
		t.Errorf("status %d and body %s, want %d %s", r.status, r.body, status, name)
	}
	return p
}

func wantHeader(t *testing.T, r response, name, want string) {
	t.Helper()
	if got := r.header.Get(name); got != want {
		t.Errorf("%s is %q, want %q", name, got, want)
	}
}

// shorten creates a link from a JSON body and returns the answer.
func (s *site) shorten(t *testing.T, body string) answer {
	t.Helper()
	r := s.create(t, body)
	if !r.created() {
		t.Fatalf("POST /shorten %s: status %d (want 201), %s", body, r.status, r.body)
	}
	return decode[answer](t, r.body)
}

func decode[T any](t *testing.T, body string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("decode %q: %v", body, err)
	}
	return v
}

// expired returns a link that expired before the test.
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
