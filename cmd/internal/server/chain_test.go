package server

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/internal/testenv"
	"keypool/internal/testenv/logbuffer"
	"keypool/web/admin"
)

// provided returns the settings of a server with everything that its key source needs.
func provided(t *testing.T, needs config.Need) config.Server {
	t.Helper()
	provide, ok := map[config.Need]func() config.Server{
		"":                   func() config.Server { return settings(t, sqliteURL(t), "") },
		config.NeedsRedis:    func() config.Server { return settings(t, sqliteURL(t), testenv.RedisURL(t)) },
		config.NeedsPostgres: func() config.Server { return settings(t, testenv.PostgresURL(t), "") },
		config.NeedsKGS: func() config.Server {
			s := settings(t, sqliteURL(t), "")
			_, url := startKeyService(t, sqliteURL(t))
			s.KGSURL = config.KGSURL(url)
			return s
		},
	}[needs]
	if !ok {
		t.Fatalf("the test cannot provide %s", needs)
	}
	return provide()
}

func TestServerCreatesLinksWithEveryKeySource(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"redis-pool": "pool", "memory-pool": "pool"}
	for _, source := range app.KeySources() {
		t.Run(source.Name, func(t *testing.T) {
			t.Parallel()
			s := provided(t, source.Needs)
			s.KeySource = source.Name
			r := start(t, s)
			seen := make(map[string]bool)
			for i := range 250 { // more than a batch
				code := r.shorten(fmt.Sprintf("https://go.dev/%d", i))
				if seen[code] {
					t.Fatalf("the code %s was assigned twice", code)
				}
				seen[code] = true
				r.wantStatus(code, http.StatusFound, fmt.Sprintf("https://go.dev/%d", i))
			}
			if got := r.status(); got.KeySource != source.Name || got.ServingFrom == nil {
				t.Errorf("status %+v", got)
			}
			r.wantSpace(slices.Contains([]string{"redis-pool", "memory-pool", "ledger"}, source.Name))
			for _, want := range []string{
				`shortener_links_created_total{kind="key"} 250`,
				// The keys do not come from the fallback.
				`kgs_keys_taken_total{source="` + cmp.Or(labels[source.Name], source.Name) + `"}`,
			} {
				if !strings.Contains(r.metrics(), want) {
					t.Errorf("the metrics do not contain %s", want)
				}
			}
		})
	}
}

// wantSpace waits until the server has read its ledger. If known is true, the server must then
// report how much of the space is used. Otherwise it must not report that value.
func (r *running) wantSpace(known bool) {
	r.t.Helper()
	r.await("a read of the ledger", func(admin.Status) bool { return strings.Contains(r.metrics(), "\nkgs_keys_reserved_total ") })
	if known {
		r.await("the first reservation", func(s admin.Status) bool { return s.SpaceUsedRatio != nil })
	}
	s := r.status()
	if gauge := strings.Contains(r.metrics(), "\nkgs_space_used_ratio "); gauge != known || (s.SpaceUsedRatio != nil) != known {
		r.t.Errorf("gauge of the used space exists = %t, status %+v; want known = %t", gauge, s, known)
	}
}

// Two creations for one URL make two links, even if the code is a hash of the URL.
func TestHashKeySourceMakesNewCodeForRepeatedURL(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		algorithm, first string
		posts            int
	}{
		{"sha256", "um4Hu7", 50},
		{"md5", "8gsjoC", 3},
	} {
		t.Run(tc.algorithm, func(t *testing.T) {
			t.Parallel()
			s := settings(t, sqliteURL(t), "")
			s.KeySource, s.HashAlgorithm = "hash", tc.algorithm
			r := start(t, s)
			var codes []string
			for range tc.posts {
				codes = append(codes, r.shorten("https://go.dev/"))
			}
			for i, code := range codes {
				if slices.Contains(codes[:i], code) {
					t.Errorf("the code %s was assigned twice", code)
				}
				r.wantStatus(code, http.StatusFound, "https://go.dev/")
			}
			if codes[0] != tc.first {
				t.Errorf("the first code is %s, want %s", codes[0], tc.first)
			}
			conflicts := tc.posts * (tc.posts - 1) / 2 // each creation conflicts with all earlier links
			if want := fmt.Sprintf(`kgs_key_conflicts_total{source="hash"} %d`, conflicts); !strings.Contains(r.metrics(), want) {
				t.Errorf("the metrics do not contain %s", want)
			}
		})
	}
}

// A Redis without persistence loses the counter when it restarts. While Redis is down, the fallback makes
// the codes. After the restart, the server skips the numbers of the existing links and ten million further numbers.
func TestRedisCounterSkipsExistingLinksAfterRestart(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t, "--appendonly", "no")
	s := settings(t, sqliteURL(t), redis.URL)
	s.KeySource = "redis-incr"
	r := start(t, s)
	seen := make(map[string]bool)
	shorten := func() (code string) {
		if code = r.shorten("https://go.dev/"); seen[code] {
			t.Fatalf("the code %s was assigned twice", code)
		}
		seen[code] = true
		return code
	}
	for range 100 {
		shorten()
	}
	numbered := func() bool { // reports whether the next code has a number from 101 to 14,776,335
		code := shorten()
		return "00001d" <= code && code < "010000"
	}
	r.await("the numbers after 100", func(admin.Status) bool { return numbered() })
	redis.Kill()
	r.await("an open breaker", func(s admin.Status) bool {
		shorten()
		return *s.Breaker == "open" && *s.ServingFrom == "fallback"
	})
	redis.Restart()
	r.await("a counter that answers, without a creation", func(s admin.Status) bool { return *s.Breaker == "closed" && *s.ServingFrom == "batch" })
	r.await("a counter beyond the existing links", func(s admin.Status) bool {
		return numbered() && *s.Breaker == "closed" && *s.ServingFrom == "batch"
	})
}

func TestStartLogsPoolCapacityOnlyIfKeySourceHasPool(t *testing.T) {
	t.Parallel()
	for source, pooled := range map[string]bool{"memory-pool": true, "ledger": false, "random": false} {
		var log logbuffer.Buffer
		s := settings(t, sqliteURL(t), "")
		s.KeySource = source
		startLogging(t, s, &log)
		if got := log.String(); !strings.Contains(got, "key_source="+source) || strings.Contains(got, "pool_capacity_keys=") != pooled {
			t.Errorf("%s: the capacity of a pool must be in the log = %t:\n%s", source, pooled, got)
		}
	}
}

// metrics returns the metrics of the server in text format.
func (r *running) metrics() string {
	r.t.Helper()
	return r.do(http.MethodGet, "http://"+r.AdminAddr().String()+"/metrics", "").body
}

func TestServerCreatesLinksWhileRedisIsDown(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	r := start(t, settings(t, testenv.PostgresURL(t), redis.URL))
	epoch := *r.await("a full pool", fullWithBatch).Epoch
	redis.Kill()
	r.await("an open breaker", func(s admin.Status) bool { return *s.Breaker == "open" && s.PoolKeys == nil })
	for i := range 300 { // more than the local batches hold
		url := fmt.Sprintf("https://go.dev/%d", i)
		r.wantStatus(r.shorten(url), http.StatusFound, url)
	}
	if s := r.status(); *s.ServingFrom != "fallback" {
		t.Errorf("serving from %s, want the fallback", *s.ServingFrom)
	}
	if a := r.do(http.MethodGet, "http://"+r.Addr().String()+"/healthz", ""); !strings.Contains(a.body, "degraded") {
		t.Errorf("/healthz answered %s, want degraded", a.body)
	}
	redis.Restart()
	s := r.await("a refilled pool", func(s admin.Status) bool {
		return fullWithBatch(s) && *s.Breaker == "closed" && *s.ServingFrom == "batch"
	})
	if *s.Epoch <= epoch {
		t.Errorf("epoch %d after the restart of Redis, want a later one than %d", *s.Epoch, epoch)
	}
	r.wantStatus(r.shorten("https://go.dev/back"), http.StatusFound, "https://go.dev/back")
}

func TestServersAndWorkersShareOnePool(t *testing.T) {
	t.Parallel()
	database, redisURL := testenv.PostgresURL(t), testenv.RedisURL(t)
	s := settings(t, database, redisURL)
	s.Worker.On = false
	for range 2 {
		w, err := app.StartKGS(t.Context(), config.KGS{Common: s.Common}, slog.New(slog.DiscardHandler), nil)
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
	one.await("a full pool", fullWithBatch)
	seen := make(map[string]bool)
	for range 100 {
		for _, pair := range [][2]*running{{one, other}, {other, one}} {
			code := pair[0].shorten("https://go.dev/")
			if seen[code] {
				t.Fatalf("the code %s was assigned twice", code)
			}
			seen[code] = true
			pair[1].wantStatus(code, http.StatusFound, "https://go.dev/")
		}
	}
	if r := auditJSON(t, database, redisURL); r.status != 0 {
		t.Errorf("audit: exit status %d, %s, %+v", r.status, r.stderr, r.Accounts)
	}
	if status, out := command(t, database, "audit"); status != 2 {
		t.Errorf("audit without REDIS_URL: exit status %d, %s; want 2", status, out)
	}
}

func TestServerWithoutFallbackAnswers503IfPoolIsEmpty(t *testing.T) {
	t.Parallel()
	s := settings(t, sqliteURL(t), "")
	s.Worker.On, s.Fallback = false, "none" // the pool stays empty
	r := start(t, s)
	a := r.once("", http.MethodPost, "http://"+r.Addr().String()+"/shorten", "url=https://go.dev")
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("%+v, want 503 with Retry-After", a)
	}
}
