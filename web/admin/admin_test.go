package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func full() Status {
	return Status{
		State: "ok", KeySource: "redis-pool", CountsSpace: true, ServingFrom: new("batch"),
		ServingSince: new(time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)), PoolKeys: new(int64(812345)),
		CapacityKeys: new(int64(1000000)), LocalKeys: new(int64(4200)), RunwaySeconds: new(812.3),
		TakenPerSecond: new(1000.0), RefilledPerSecond: new(0.0), Epoch: new(int64(3)), MayEvict: new(false), SpaceLength: new(6),
		SpaceUsedRatio: new(0.0000176), SpaceRunwaySeconds: new(56799000.0), FallbackAttemptsExpected: new(1.00002), Breaker: new("closed"),
		Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Limits: &Limits{
			Anonymous: true, AnonymousRate: "10/s", MissRate: 50, MissBurst: 200, Refused: Refused{Anonymous: 1, Token: 2, Miss: 3},
		},
	}
}

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w
}

func newTestAdmin(ready error, status Status) *Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "kgs_pool_keys"}))
	return New(Config{
		Gatherer: registry,
		Ready:    func(context.Context) error { return ready },
		Status:   func() Status { return status },
	})
}

func TestAdminServesMainRoutes(t *testing.T) {
	t.Parallel()
	h := newTestAdmin(nil, full())
	for path, want := range map[string]string{
		"/metrics": "kgs_pool_keys 0", "/livez": `{"status":"ok"}`, "/readyz": `{"status":"ok"}`,
		"/": "81.2 % full", "/debug/pprof/": "goroutine",
	} {
		if w := get(t, h, path); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("GET %s has status %d (want 200): %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/elsewhere", "/debug/pprof/cmdline"} { // a command line may hold secrets
		if w := get(t, h, path); w.Code != http.StatusNotFound {
			t.Errorf("GET %s has status %d, want 404", path, w.Code)
		}
	}
}

func TestReadyzAnswers503WhenNotReady(t *testing.T) {
	t.Parallel()
	h := newTestAdmin(errors.New("dial 10.9.8.7"), full())
	w := get(t, h, "/readyz")
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "10.9.8.7") {
		t.Errorf("/readyz has status %d, header %v and body %s; want 503 with Retry-After", w.Code, w.Header(), w.Body)
	}
	if w := get(t, h, "/livez"); w.Code != http.StatusOK {
		t.Errorf("/livez has status %d, want 200", w.Code)
	}
}

func TestReadyzSaysThatProgramIsDegraded(t *testing.T) {
	t.Parallel()
	h := New(Config{
		Gatherer: prometheus.NewRegistry(),
		Ready:    func(context.Context) error { return nil },
		Degraded: func() bool { return true },
	})
	if w := get(t, h, "/readyz"); w.Code != http.StatusOK || w.Body.String() != "{\"status\":\"degraded\"}\n" {
		t.Errorf("/readyz has status %d and body %s, want 200 and degraded", w.Code, w.Body)
	}
}

// Requests for /readyz arrive every few seconds and must not fill the log.
func TestEachChangeOfReadinessIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var failure error
	h := New(Config{
		Gatherer: prometheus.NewRegistry(),
		Ready:    func(context.Context) error { return failure },
		Logger:   slog.New(slog.NewTextHandler(&log, nil)),
	})
	errUnreachable := errors.New("dial tcp 10.9.8.7: connection refused")
	for _, failure = range []error{nil, errUnreachable, errUnreachable, errUnreachable, nil, nil, errUnreachable} {
		get(t, h, "/readyz")
	}
	got := log.String()
	if n, again := strings.Count(got, `msg="not ready"`), strings.Count(got, `msg="ready again"`); n != 2 || again != 1 {
		t.Errorf("the log contains \"not ready\" %d times and \"ready again\" %d times; want 2 and 1:\n%s", n, again, got)
	}
}

// goneClient is a ResponseWriter whose client has closed the connection.
type goneClient struct{ *httptest.ResponseRecorder }

func (goneClient) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestOnlyErrorsOfServerAreLoggedAtLevelError(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	status := full()
	metrics := prometheus.NewRegistry()
	runway := prometheus.NewGauge(prometheus.GaugeOpts{Name: "kgs_pool_runway_seconds"})
	metrics.MustRegister(runway)
	h := New(Config{
		Gatherer: metrics, Ready: func(context.Context) error { return nil },
		Status: func() Status { return status }, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	for _, path := range []string{"/livez", "/readyz", "/status", "/", "/favicon.ico", "/metrics"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		h.ServeHTTP(goneClient{httptest.NewRecorder()}, r)
	}
	if log.Len() > 0 {
		t.Errorf("the log has lines about clients that disconnected:\n%s", &log)
	}
	status.RunwaySeconds = new(math.Inf(1)) // JSON has no infinity
	get(t, h, "/status")
	if !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("the log is %q, want an error for an answer that cannot be encoded", &log)
	}
	log.Reset()
	metrics.MustRegister(failingCollector{runway.Desc()})
	if w := get(t, h, "/metrics"); w.Code != http.StatusInternalServerError || strings.Count(log.String(), "level=ERROR") != 1 {
		t.Errorf("/metrics with a collector that fails: status %d, log %q, want 500 and one error", w.Code, &log)
	}
}

// failingCollector is a collector whose metric has an error.
type failingCollector struct{ desc *prometheus.Desc }

func (failingCollector) Describe(chan<- *prometheus.Desc) {}

func (c failingCollector) Collect(metrics chan<- prometheus.Metric) {
	metrics <- prometheus.NewInvalidMetric(c.desc, errors.New("failed by the test"))
}

// The runway of an idle service is infinite. If a runway is unknown, its metric is absent.
func TestRunwayMetricsAreInfiniteIfIdleAndAbsentIfUnknown(t *testing.T) {
	t.Parallel()
	idle := full()
	idle.RunwaySeconds, idle.SpaceRunwaySeconds = nil, nil
	for name, tt := range map[string]struct {
		status Status
		want   string
	}{
		"busy":                {full(), "kgs_runway_seconds 812.3\nkgs_space_runway_seconds 5.6799e+07\n"},
		"idle":                {idle, "kgs_runway_seconds +Inf\nkgs_space_runway_seconds +Inf\n"},
		"outage of Redis":     {fallenBack(), ""},
		"no pool, idle":       {Status{LocalKeys: new(int64(1)), SpaceUsedRatio: new(0.5)}, "kgs_space_runway_seconds +Inf\n"},
		"nothing to run out":  {Status{KeySource: "random"}, ""},
		"idle, ledger unread": {Status{PoolKeys: new(int64(1)), CapacityKeys: new(int64(1))}, "kgs_runway_seconds +Inf\n"},
	} {
		registry := prometheus.NewRegistry()
		registry.MustRegister(NewGauges(func() Status { return tt.status }))
		var got strings.Builder
		for line := range strings.Lines(get(t, New(Config{Gatherer: registry}), "/metrics").Body.String()) {
			if !strings.HasPrefix(line, "#") && strings.Contains(line, "runway") {
				got.WriteString(line)
			}
		}
		if got.String() != tt.want {
			t.Errorf("%s: the metrics are %q, want %q", name, got.String(), tt.want)
		}
	}
}

// Other programs depend on the members of /status.
func TestStatusJSONHasDocumentedMembers(t *testing.T) {
	t.Parallel()
	const want = `{"state":"ok","key_source":"redis-pool","serving_from":"batch","serving_since":"2026-01-02T03:04:06Z","pool_keys":812345,"capacity_keys":1000000,` +
		`"local_keys":4200,"runway_seconds":812.3,"taken_per_second":1000,"refilled_per_second":0,"epoch":3,"may_evict":false,` +
		`"space_length":6,"space_used_ratio":0.0000176,"space_runway_seconds":56799000,"fallback_attempts_expected":1.00002,"breaker":"closed","since":"2026-01-02T03:04:05Z",` +
		`"limits":{"anonymous":true,"anonymous_rate":"10/s","loopback_limited":false,"anonymous_max_age_seconds":null,` +
		`"miss_rate":50,"miss_burst":200,"refused":{"anonymous":1,"token":2,"miss":3}}}` + "\n"
	if diff := cmp.Diff(want, get(t, newTestAdmin(nil, full()), "/status").Body.String()); diff != "" {
		t.Error(diff)
	}
	unknown := newTestAdmin(nil, Status{State: "filling", KeySource: "random"})
	var members map[string]any
	if err := json.Unmarshal(get(t, unknown, "/status").Body.Bytes(), &members); err != nil {
		t.Fatal(err)
	}
	nulls := 0
	for _, v := range members {
		if v == nil {
			nulls++
		}
	}
	if len(members) != 19 || nulls != 16 {
		t.Errorf("/status has %d members and %d null members: %v", len(members), nulls, members)
	}
}

// The page shows an unknown value as unknown and omits a part that the program lacks.
func TestDashboardOmitsPartsThatProgramLacks(t *testing.T) {
	t.Parallel()
	random := get(t, newTestAdmin(nil, Status{State: "ok", KeySource: "random", ServingFrom: new("fallback")}), "/").Body.String()
	outage := get(t, newTestAdmin(nil, fallenBack()), "/").Body.String()
	for row, shown := range map[string]bool{"<dt>Keys in the pool": false, "<dt>Circuit breaker": false, "<dt>Space used": false, "<dt>Serving from": true, "<meter": false} {
		if strings.Contains(random, row) != shown {
			t.Errorf("a program without a pool: the page must contain %q = %v:\n%s", row, shown, random)
		}
	}
	other := full() // the ledger does not count the keys of this pool
	other.KeySource, other.CountsSpace = "postgres-pool", false
	if page := get(t, newTestAdmin(nil, other), "/").Body.String(); strings.Contains(page, "<dt>Space used") || !strings.Contains(page, "<dt>Keys in the pool") {
		t.Errorf("a program with keys that the ledger does not count: the page must show the pool, and no row about the space:\n%s", page)
	}
	for _, row := range []string{
		"<dt>Keys in the pool</dt><dd>unknown</dd>", "<dt>Epoch</dt><dd>unknown</dd>", "<dt>Space runway</dt><dd>unknown</dd>",
	} {
		if !strings.Contains(outage, row) {
			t.Errorf("during an outage of Redis the page does not contain %q:\n%s", row, outage)
		}
	}
}
