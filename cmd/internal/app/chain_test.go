package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"keypool/internal/testenv"
	"keypool/web"
)

func TestServerWithEveryKeySource(t *testing.T) {
	t.Parallel()
	for _, source := range keySourceNames() {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			database, redisURL := sqliteURL(t), ""
			if source == "redis-pool" {
				redisURL = testenv.RedisURL(t)
			}
			s := settings(t, database, redisURL)
			s.KeySource = source
			if source == "kgs" {
				_, s.KGSURL = startKGS(t, sqliteURL(t))
			}
			r := start(t, s)
			seen := make(map[string]bool)
			for i := range 250 { // more than a batch
				code := r.shorten(fmt.Sprintf("https://go.dev/%d", i))
				if seen[code] || len(code) != 6 {
					t.Fatalf("code %q: seen before: %v", code, seen[code])
				}
				seen[code] = true
				r.wantStatus(code, http.StatusFound, fmt.Sprintf("https://go.dev/%d", i))
			}
			if got := r.status(); got.KeySource != source || got.ServingFrom == nil {
				t.Errorf("status %+v", got)
			}
			metrics := r.do(http.MethodGet, "http://"+r.AdminAddr().String()+"/metrics", "")
			if !strings.Contains(metrics.body, `shortener_links_created_total{kind="key"} 250`) {
				t.Error("the metrics do not tell of 250 links")
			}
		})
	}
}

func TestServerGoesOnWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	r := start(t, settings(t, testenv.PostgresURL(t), redis.URL))
	epoch := *r.await("a full pool", full).Epoch
	redis.Kill()
	r.await("an open breaker", func(s web.Status) bool { return *s.Breaker == "open" && s.PoolKeys == nil })
	for i := range 300 { // more than the local batches hold
		url := fmt.Sprintf("https://go.dev/%d", i)
		r.wantStatus(r.shorten(url), http.StatusFound, url)
	}
	if s := r.status(); *s.ServingFrom != "fallback" {
		t.Errorf("serving from %s, want the fallback", *s.ServingFrom)
	}
	if a := r.do(http.MethodGet, "http://"+r.Addr().String()+"/healthz", ""); !strings.Contains(a.body, "degraded") {
		t.Errorf("/healthz says %s", a.body)
	}
	redis.Restart()
	s := r.await("a refilled pool", func(s web.Status) bool { return full(s) && *s.Breaker == "closed" && *s.ServingFrom == "batch" })
	if *s.Epoch <= epoch {
		t.Errorf("epoch %d after Redis came back, it was %d before", *s.Epoch, epoch)
	}
	r.wantStatus(r.shorten("https://go.dev/back"), http.StatusFound, "https://go.dev/back")
}

func TestServersAndWorkersShareOnePool(t *testing.T) {
	t.Parallel()
	database, redisURL := testenv.PostgresURL(t), testenv.RedisURL(t)
	s := settings(t, database, redisURL)
	s.Worker = false
	for range 2 {
		w, err := StartWorker(t.Context(), KGSSettings{Settings: s.Settings}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := w.Stop(); err != nil {
				t.Errorf("stop the worker: %v", err)
			}
		})
	}
	one, other := start(t, s), start(t, s)
	one.await("a full pool", full)
	seen := make(map[string]bool)
	for range 100 {
		for _, pair := range [][2]*running{{one, other}, {other, one}} {
			code := pair[0].shorten("https://go.dev/")
			if seen[code] {
				t.Fatalf("the code %s was given twice", code)
			}
			seen[code] = true
			pair[1].wantStatus(code, http.StatusFound, "https://go.dev/")
		}
	}
	if status, out := command(t, database, "--redis-url="+redisURL, "audit", "--json"); status != 0 || !strings.Contains(out, `"closes": true`) {
		t.Errorf("audit: %d, %s", status, out)
	}
	if status, out := command(t, database, "audit"); status != 2 {
		t.Errorf("an audit that was not shown the pool: %d, %s, want 2", status, out)
	}
}

func TestServerWithoutFallbackRefuses(t *testing.T) {
	t.Parallel()
	s := settings(t, sqliteURL(t), "")
	s.Worker, s.Fallback = false, "none" // and so a pool that nobody fills
	r := start(t, s)
	a := r.do(http.MethodPost, "http://"+r.Addr().String()+"/shorten", "url=https://go.dev")
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("%+v, want 503 with Retry-After", a)
	}
}
