package lab

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keypool/loadtest"
)

// A server loses no link through a freeze, a restart and a kill, and its accounts close.
func TestServerKeepsLinksAfterFreezeRestartAndKill(t *testing.T) {
	t.Parallel()
	mustPass(t, func(r *run) {
		database := "sqlite:" + filepath.Join(r.TempDir(), "links.db")
		s := Server(r, "DATABASE_URL="+database, "KGS_POOL_CAPACITY=20000")
		s.Start()
		Wait(r, Patience, "the pool is full", func() bool { return s.Status().Full() })
		load := Traffic(r, s)
		// If the disk is slow, the server refuses creations. Then the load is repeated.
		Wait(r, 2*Patience, "a load has no failed creation", func() bool {
			load.Start(200)
			load.AwaitMore(70)
			return load.Stop().Failed() == 0
		})
		createOne(r, load)
		// While a refill is slow, the fallback makes codes.
		if pool, all := s.Counter("kgs_keys_taken_total", "source", "pool"), s.Counter("kgs_keys_taken_total"); pool < all/2 || all < 71 {
			t.Errorf("the server took %v keys, %v of them from the pool; want at least 71 keys and most of them from the pool", all, pool)
		}
		s.Freeze()
		if err := s.TryReady(t.Context()); err == nil {
			t.Error("a frozen server answers")
		}
		s.Thaw()
		s.Restart()
		s.Kill()
		if !s.Ended() || s.Exit(time.Second) != -1 {
			t.Error("after SIGKILL the server is running or its exit status is not -1")
		}
		s.Start()
		v := Check(r, s, Census(database), load)
		if v.Broken() > 0 || v.Checked != v.Acknowledged || v.Acknowledged < 71 {
			t.Errorf("the verdict on the links is %+v, want at least 71 links and no fault", v)
		}
		if got, err := CountLinks(t.Context(), database); got < v.Acknowledged || err != nil {
			t.Errorf("%d links stored, %d acknowledged, error %v", got, v.Acknowledged, err)
		}
		if m := s.Memory(); m.Resident < 1<<20 || m.Peak < m.Resident {
			t.Errorf("the memory of the server is %+v, want at least 1 MiB and a peak that is not smaller", m)
		}
		if a := Audit(r, s.Settings...); !a.Closes || a.Linked < v.Acknowledged {
			t.Errorf("the accounts do not close or lack links: %+v: %s", a, a.Problem())
		}
		s.Stop()
	})
}

// createOne creates one acknowledged link. It repeats a creation that is refused.
func createOne(r *run, load *Load) {
	Wait(r, 2*Patience, "a link is acknowledged", func() bool {
		_, err := load.TryOne(r.Context())
		return err == nil
	})
}

// Check counts a lost link in its verdict and does not end the run.
func TestCheckFindsLostLinks(t *testing.T) {
	t.Parallel()
	mustPass(t, func(r *run) {
		database := "sqlite:" + filepath.Join(r.TempDir(), "links.db")
		s := Server(r, "DATABASE_URL="+database, "KGS_POOL_CAPACITY=20000")
		s.Start()
		load := Traffic(r, s)
		createOne(r, load)
		other := Server(r, "KGS_POOL_CAPACITY=20000")
		other.Start()
		if v := Check(r, other, nil, load); v.Lost != 1 || v.Acknowledged != 1 {
			t.Errorf("the verdict is %+v, want one lost link", v)
		}
	})
}

func TestTryCheckReadsLinksBackAfterInterruption(t *testing.T) {
	t.Parallel()
	mustPass(t, func(r *run) {
		s := Server(r, "KGS_POOL_CAPACITY=20000")
		s.Start()
		ctx, cancel := context.WithCancel(t.Context())
		load := Traffic(r, s)
		createOne(r, load)
		cancel()
		if v, err := TryCheck(interrupted{r, ctx}, s, nil, load); v.Checked != 1 || err != nil {
			t.Errorf("TryCheck returns %+v and the error %v, want one checked link and no error", v, err)
		}
	})
}

func TestRunSettingsOverrideProgramSettings(t *testing.T) {
	t.Parallel()
	r := newRun(t)
	r.settings = []string{"KGS_POOL_CAPACITY=none"}
	s := Server(r, "KGS_POOL_CAPACITY=1000")
	failures := r.do(s.Start)
	if len(failures) == 0 || !strings.Contains(failures[0], "ended before it was ready") || !strings.Contains(failures[0], "KGS_POOL_CAPACITY") {
		t.Errorf("the run has the failures %q, want one failure with the log", failures)
	}
}

// A worker fills a pool, and a durable Redis keeps the pool when it is killed.
func TestPoolInDurableRedisSurvivesKill(t *testing.T) {
	t.Parallel()
	mustPass(t, func(r *run) {
		postgres, redis := Postgres(r), DurableRedis(r)
		settings := []string{"DATABASE_URL=" + postgres.URL, "REDIS_URL=" + redis.URL, "KGS_POOL_CAPACITY=5000"}
		w := Worker(r, settings...)
		if out, err := Command(r, "shortener", r.TempDir(), w.Settings, "migrate").CombinedOutput(); err != nil {
			t.Errorf("migrate: %v\n%s", err, out)
		}
		w.Start()
		client := RedisClient(r, redis.URL)
		Wait(r, Patience, "the pool is full", func() bool {
			n, err := ListedKeys(t.Context(), client)
			return err == nil && n >= 5000
		})
		w.Stop()
		redis.Kill()
		redis.Restart()
		if n, err := ListedKeys(t.Context(), client); n < 5000 || err != nil {
			t.Errorf("%d keys after a kill of Redis, error %v", n, err)
		}
		redis.Freeze()
		redis.Thaw()
		if Installed("redis-server", "no-such-program") || !Installed("redis-server") {
			t.Error("Installed does not report which programs are installed")
		}
	})
}

func TestPointsOmitsUnknownValues(t *testing.T) {
	t.Parallel()
	seen := make(chan struct{}, 10)
	w := Watch(newRun(t), time.Millisecond, func(context.Context) (*int64, error) { seen <- struct{}{}; return nil, nil })
	<-seen
	<-seen // the first sample is kept before the second one is taken
	samples := w.Stop()
	known := func(n *int64) (float64, bool) { return 0, n != nil }
	if points := Points(samples, samples[0].At, known); len(samples) == 0 || len(points) != 0 {
		t.Errorf("%d samples and %d points; want samples, but no point for an unknown value", len(samples), len(points))
	}
}

func TestOtherStartsServerAndWaitsForPing(t *testing.T) {
	t.Parallel()
	mustPass(t, func(r *run) {
		url := Other(r, nil, func(addr string) (string, []string) {
			return filepath.Join(programs, "shortener"), []string{"--listen-addr", addr, "--admin-addr", "127.0.0.1:0"}
		}, func(ctx context.Context, url string) error { return loadtest.NewClient(url, 0).Healthy(ctx) })
		if res, err := http.Get(url + "/healthz"); err != nil {
			t.Error(err)
		} else {
			_ = res.Body.Close()
		}
	})
}
