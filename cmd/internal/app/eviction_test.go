package app

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/web/admin"

	"github.com/redis/go-redis/v9"
)

func TestRedisThatEvictsIsRefused(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t, "--maxmemory-policy", "allkeys-lru")
	s, log := settings(t, sqliteURL(t), redis.URL), slog.New(slog.DiscardHandler)
	for name, start := range map[string]func() (*Program, error){
		"server": func() (*Program, error) { return StartServer(t.Context(), s, log) },
		"worker": func() (*Program, error) { return StartKGS(t.Context(), KGSSettings{Settings: s.Settings}, log) },
	} {
		p, err := start()
		if err == nil {
			err = p.Stop()
		}
		var setting *SettingError
		if !errors.As(err, &setting) || setting.Name != "REDIS_URL" || !strings.Contains(setting.Got, "allkeys-lru") ||
			!strings.Contains(setting.Takes, "noeviction") {
			t.Errorf("%s: %v; want a SettingError that says what REDIS_URL got and takes", name, err)
		}
	}
}

// What is not known is no reason to refuse: Redis may be away at a start, and may hang.
func TestRedisThatIsAwayIsNotRefused(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t, "--maxmemory-policy", "allkeys-lru")
	redis.Pause()
	r := start(t, settings(t, sqliteURL(t), redis.URL))
	if s := r.status(); s.MayEvict != nil {
		t.Errorf("%+v: want it unknown whether Redis may evict", s)
	}
	redis.Resume()
	r.await("a page for a Redis that may evict", func(s admin.Status) bool {
		return s.State == string(kgs.StatePage) && s.MayEvict != nil && *s.MayEvict
	})
}

func TestEvictionPolicyThatIsChangedLaterPages(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	options, err := redis.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	hook := newWebhook(t, http.StatusOK)
	s := settings(t, testenv.PostgresURL(t), server.URL)
	s.AlertWebhook = hook.url()
	var log lockedBuffer
	p, err := StartServer(t.Context(), s, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	r := &running{p, t, &http.Client{}}
	t.Cleanup(r.stop)
	since := *r.await("a full pool", full).ServingSince

	policy := func(name string) {
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", name).Err(); err != nil {
			t.Fatal(err)
		}
	}
	policy("allkeys-lfu")
	r.await("a page", func(s admin.Status) bool { return s.State == string(kgs.StatePage) && *s.MayEvict })
	metrics := r.do(http.MethodGet, "http://"+r.AdminAddr().String()+"/metrics", "").body
	policy("noeviction")
	after := r.await("the all-clear", func(s admin.Status) bool { return full(s) && !*s.MayEvict })
	if *after.Epoch != 1 || !after.ServingSince.Equal(since) || *after.ServingFrom != "batch" {
		t.Errorf("%+v: want keys from the batch since %v, and the first epoch", after, since)
	}

	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	page, allClear := hook.next(t), hook.next(t)
	if page.State != kgs.StatePage || page.Previous != kgs.StateOK || !strings.HasPrefix(page.Instance, host) || page.PoolKeys == nil {
		t.Errorf("alerted of %+v", page)
	}
	if allClear.State != kgs.StateOK || allClear.Previous != kgs.StatePage {
		t.Errorf("alerted of %+v", allClear)
	}
	for _, want := range []string{"kgs_pool_may_evict 1", `kgs_serving_from{source="batch"} 1`, "kgs_worker_restarts_total 0", "kgs_pages_total 1"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics do not say %s", want)
		}
	}
	if !strings.Contains(log.String(), "maxmemory-policy is allkeys-lfu") || strings.Contains(log.String(), "S3CR3T") {
		t.Errorf("the log does not say why, or too much:\n%s", log.String())
	}
}
