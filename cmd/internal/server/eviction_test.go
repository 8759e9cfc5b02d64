package server

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"keypool/cmd/internal/alert/alerttest"
	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/internal/testenv"
	"keypool/internal/testenv/logbuffer"
	"keypool/kgs/refill"
	"keypool/web/admin"
)

func TestStartRefusesRedisThatMayEvictKeys(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t, "--maxmemory-policy", "allkeys-lru")
	s, log := settings(t, sqliteURL(t), redis.URL), slog.New(slog.DiscardHandler)
	for name, start := range map[string]func() (*program.Program, error){
		"server": func() (*program.Program, error) { return Start(t.Context(), s, log) },
		"worker": func() (*program.Program, error) {
			return app.StartKGS(t.Context(), config.KGS{Common: s.Common}, log, nil)
		},
	} {
		err := refused(t, start)
		var setting *config.Error
		if !errors.As(err, &setting) || setting.Name != "REDIS_URL" || !strings.Contains(setting.Got, "allkeys-lru") ||
			!strings.Contains(setting.Takes, "noeviction") {
			t.Errorf("%s: %v; want a config.Error of REDIS_URL with both policies", name, err)
		}
	}
}

func TestStartRefusesUnknownRedisDatabaseNumber(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	for _, source := range []string{"redis-pool", "redis-incr"} {
		err := startError(t, source, redis.URL+"/99")
		var setting *config.Error
		if !errors.As(err, &setting) || setting.Name != "REDIS_URL" || !strings.Contains(setting.Got, "database number") {
			t.Errorf("%s: the start fails with %v, want a config.Error of REDIS_URL about the database number", source, err)
		}
	}
}

// A replica accepts no writes, so no key could be taken from it. After its promotion, the replica accepts writes, so a supervisor
// must try the start again. Therefore the error is not a config.Error: after a config.Error, a supervisor does not start a program
// again.
func TestStartRefusesReadOnlyRedisReplica(t *testing.T) {
	t.Parallel()
	primary := testenv.StartRedis(t)
	host, port, _ := strings.Cut(primary.Addr, ":")
	replica := testenv.StartRedis(t, "--replicaof", host+" "+port)
	for _, source := range []string{"redis-pool", "redis-incr"} {
		err := startError(t, source, replica.URL)
		var setting *config.Error
		if err == nil || errors.As(err, &setting) || !strings.Contains(err.Error(), "REDIS_URL leads to a Redis that is a read-only replica") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the start fails with %v, want an error in one line that names REDIS_URL and the replica, and is no config.Error", source, err)
		}
	}
}

// If Redis is unreachable or hangs, the start succeeds although the eviction policy is unknown.
func TestServerStartsWhileRedisIsUnreachable(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t, "--maxmemory-policy", "allkeys-lru")
	redis.Pause()
	r := start(t, settings(t, sqliteURL(t), redis.URL))
	if s := r.status(); s.MayEvict != nil {
		t.Errorf("status %+v: want may_evict unknown", s)
	}
	redis.Resume()
	r.await("a page for a Redis that may evict", func(s admin.Status) bool {
		return s.State == string(refill.StatePage) && s.MayEvict != nil && *s.MayEvict
	})
}

func TestServerSendsPageAlertWhenRedisMayEvictKeys(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	options, err := redis.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	hook := alerttest.New(t, http.StatusOK)
	s := settings(t, testenv.PostgresURL(t), server.URL)
	s.AlertWebhook = config.WebhookURL(hook.URL())
	var log logbuffer.Buffer
	p, err := Start(t.Context(), s, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	r := &running{p, t, &http.Client{}}
	t.Cleanup(r.stop)
	since := *r.await("a full pool", fullWithBatch).ServingSince

	policy := func(name string) {
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", name).Err(); err != nil {
			t.Fatal(err)
		}
	}
	policy("allkeys-lfu")
	r.await("a page", func(s admin.Status) bool {
		return s.State == string(refill.StatePage) && s.MayEvict != nil && *s.MayEvict
	})
	metrics := r.do(http.MethodGet, "http://"+r.AdminAddr().String()+"/metrics", "").body
	policy("noeviction")
	after := r.await("the end of the alarm", func(s admin.Status) bool { return fullWithBatch(s) && !*s.MayEvict })
	if *after.Epoch != 1 || !after.ServingSince.Equal(since) || *after.ServingFrom != "batch" {
		t.Errorf("status %+v: want keys from the batch since %v, and the first epoch", after, since)
	}

	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	page, ended := hook.Next(t), hook.Next(t)
	if page.State != string(refill.StatePage) || page.Previous != string(refill.StateOK) || !strings.HasPrefix(page.Instance, host) || page.PoolKeys == nil {
		t.Errorf("first alert %+v; want the page, from this host", page)
	}
	if ended.State != string(refill.StateOK) || ended.Previous != string(refill.StatePage) {
		t.Errorf("second alert %+v; want the end of the page", ended)
	}
	for _, want := range []string{"kgs_pool_may_evict 1", `kgs_serving_from{source="batch"} 1`, "kgs_worker_restarts_total 0", "kgs_pages_total 1"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics do not contain %s", want)
		}
	}
	if !strings.Contains(log.String(), "maxmemory-policy is allkeys-lfu") || strings.Contains(log.String(), "S3CR3T") {
		t.Errorf("the log lacks the policy or contains the secret:\n%s", log.String())
	}
}
