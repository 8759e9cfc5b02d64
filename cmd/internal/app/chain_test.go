package app

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"keypool/internal/testenv"
	"keypool/web/admin"
)

// provided are the settings of a server that has what its key source needs.
func provided(t *testing.T, needs need) ServeSettings {
	t.Helper()
	provide, ok := map[need]func() ServeSettings{
		"":            func() ServeSettings { return settings(t, sqliteURL(t), "") },
		needsRedis:    func() ServeSettings { return settings(t, sqliteURL(t), testenv.RedisURL(t)) },
		needsPostgres: func() ServeSettings { return settings(t, testenv.PostgresURL(t), "") },
		needsKGS: func() ServeSettings {
			s := settings(t, sqliteURL(t), "")
			_, s.KGSURL = startKeyService(t, sqliteURL(t))
			return s
		},
	}[needs]
	if !ok {
		t.Fatalf("the test does not know how to provide %s", needs)
	}
	return provide()
}

func TestServerWithEveryKeySource(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"redis-pool": "pool", "memory-pool": "pool"}
	for _, source := range keySources() {
		t.Run(source.name, func(t *testing.T) {
			t.Parallel()
			s := provided(t, source.needs)
			s.KeySource = source.name
			r := start(t, s)
			seen := make(map[string]bool)
			for i := range 250 { // more than a batch
				code := r.shorten(fmt.Sprintf("https://go.dev/%d", i))
				if seen[code] {
					t.Fatalf("the code %s was given twice", code)
				}
				seen[code] = true
				r.wantStatus(code, http.StatusFound, fmt.Sprintf("https://go.dev/%d", i))
			}
			if got := r.status(); got.KeySource != source.name || got.ServingFrom == nil {
				t.Errorf("status %+v", got)
			}
			r.wantSpace(slices.Contains([]string{"redis-pool", "memory-pool", "ledger"}, source.name))
			for _, want := range []string{
				`shortener_links_created_total{kind="key"} 250`,
				`kgs_keys_taken_total{source="` + cmp.Or(labels[source.name], source.name) + `"}`, // not the fallback's
			} {
				if !strings.Contains(r.metrics(), want) {
					t.Errorf("the metrics do not tell of %s", want)
				}
			}
		})
	}
}

// wantSpace fails the test unless the server tells how far the space is used up, or leaves it
// unknown although it has seen its ledger.
func (r *running) wantSpace(known bool) {
	r.t.Helper()
	r.await("a look at the ledger", func(admin.Status) bool { return strings.Contains(r.metrics(), "\nkgs_keys_reserved_total ") })
	s := r.status()
	if gauge := strings.Contains(r.metrics(), "\nkgs_space_used_ratio "); gauge != known || (s.SpaceUsedRatio != nil) != known {
		r.t.Errorf("the gauge of the space used up is there: %t; status %+v; want it known: %t", gauge, s, known)
	}
}

// Two posts of one URL are two links, also where the URL makes the code.
func TestHashLinksOneURLManyTimes(t *testing.T) {
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
					t.Errorf("the code %s was given twice", code)
				}
				r.wantStatus(code, http.StatusFound, "https://go.dev/")
			}
			if codes[0] != tc.first {
				t.Errorf("the first code is %s, want %s", codes[0], tc.first)
			}
			conflicts := tc.posts * (tc.posts - 1) / 2 // each post meets all that came before
			if want := fmt.Sprintf(`kgs_key_conflicts_total{source="hash"} %d`, conflicts); !strings.Contains(r.metrics(), want) {
				t.Errorf("the metrics do not say %s", want)
			}
		})
	}
}

// A Redis without persistence loses the counter when it restarts. Meanwhile the fallback
// serves, and then the counter finds its way past the links that there are.
func TestCounterSurvivesItsRedis(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t, "--appendonly", "no")
	s := settings(t, sqliteURL(t), redis.URL)
	s.KeySource = "redis-incr"
	r := start(t, s)
	seen := make(map[string]bool)
	shorten := func() (code string) {
		if code = r.shorten("https://go.dev/"); seen[code] {
			t.Fatalf("the code %s was given twice", code)
		}
		seen[code] = true
		return code
	}
	for range 100 {
		shorten()
	}
	numbered := func() bool { // 101 to 3,843
		code := shorten()
		return "00001d" <= code && code < "000100"
	}
	r.await("the numbers after 100", func(admin.Status) bool { return numbered() })
	redis.Kill()
	r.await("an open breaker", func(s admin.Status) bool {
		shorten()
		return *s.Breaker == "open" && *s.ServingFrom == "fallback"
	})
	redis.Restart()
	r.await("the counter past the links that it made", func(s admin.Status) bool {
		return numbered() && *s.Breaker == "closed" && *s.ServingFrom == "batch"
	})
}

// metrics are those that the server shows.
func (r *running) metrics() string {
	r.t.Helper()
	return r.do(http.MethodGet, "http://"+r.AdminAddr().String()+"/metrics", "").body
}

func TestServerGoesOnWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	r := start(t, settings(t, testenv.PostgresURL(t), redis.URL))
	epoch := *r.await("a full pool", full).Epoch
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
		t.Errorf("/healthz says %s", a.body)
	}
	redis.Restart()
	s := r.await("a refilled pool", func(s admin.Status) bool { return full(s) && *s.Breaker == "closed" && *s.ServingFrom == "batch" })
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
		w, err := StartKGS(t.Context(), KGSSettings{Settings: s.Settings}, slog.New(slog.DiscardHandler))
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
