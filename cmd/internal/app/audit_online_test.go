package app

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/web"

	"github.com/redis/go-redis/v9"
)

// under makes links with several clients at once until ctx ends, and fails the test
// when one of them is refused.
func (r *running) under(ctx context.Context, clients *sync.WaitGroup) {
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost,
					"http://"+r.Addr().String()+"/shorten", strings.NewReader("url=https://go.dev/"))
				if err != nil {
					r.t.Error(err)
					return
				}
				req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				resp, err := r.client.Do(req)
				if err != nil {
					r.t.Error(err)
					return
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusCreated {
					r.t.Errorf("POST /shorten during an audit: %s", resp.Status)
				}
			}
		})
	}
}

// auditing audits until ctx ends. Each audit must find that the accounts close, or tell
// that it could not be done because of one of excuses. It counts the former.
func auditing(ctx context.Context, t *testing.T, database, redisURL string, excuses ...error) (closed int) {
	t.Helper()
	for ctx.Err() == nil {
		r := audit(t, database, redisURL)
		excused := false
		for _, e := range excuses {
			excused = excused || strings.Contains(r.stderr, e.Error())
		}
		switch {
		case r.status == 0:
			closed++
		case r.status == 1:
			t.Errorf("the accounts do not close: %+v", r.Accounts)
		case !excused:
			t.Errorf("audit: exit status %d, %s", r.status, r.stderr)
		}
	}
	return closed
}

// Servers create, a worker refills, Redis loses all of its data again and again: an audit
// never finds fault with that, and never stands in anybody's way.
func TestAuditWhileEpochsChange(t *testing.T) {
	t.Parallel()
	database, redisURL := testenv.PostgresURL(t), testenv.StartRedis(t).URL
	opts, err := redis.ParseURL(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opts)
	t.Cleanup(func() { client.Close() })
	r := start(t, settings(t, database, redisURL))
	r.await("a full pool", full)

	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	t.Cleanup(others.Wait)
	t.Cleanup(stop)
	r.under(ctx, &others)
	closed := 0
	others.Go(func() {
		closed = auditing(ctx, t, database, redisURL, kgs.ErrNoEpoch, kgs.ErrFenced, kgs.ErrPoolUnknown, kgs.ErrEpochChanged)
	})
	epoch := int64(0)
	newEpoch := func(s web.Status) bool { return full(s) && *s.Epoch > epoch }
	const losses = 8
	for range losses {
		epoch = *r.await("a full pool", newEpoch).Epoch
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	r.await("a full pool", newEpoch)
	if last := audit(t, database, redisURL); last.status != 0 || last.Abandoned[kgs.ReasonEpoch] == 0 {
		t.Errorf("an audit under load: exit status %d, %s, %+v", last.status, last.stderr, last.Accounts)
	}
	stop()
	others.Wait()
	r.stop()
	last := audit(t, database, redisURL)
	if last.status != 0 || last.InBatches != 0 || len(last.Epochs) < losses+1 {
		t.Errorf("the audit at the end: exit status %d, %s, %+v", last.status, last.stderr, last.Accounts)
	}
	t.Logf("%d audits closed, %d links in %d epochs", closed, last.Linked, len(last.Epochs))
}

// The same in one process with one file, and no pool that could be lost.
func TestAuditBesideOneProcess(t *testing.T) {
	t.Parallel()
	database := sqliteURL(t)
	r := start(t, settings(t, database, ""))
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	t.Cleanup(others.Wait)
	t.Cleanup(stop)
	r.under(ctx, &others)
	closed := make(chan int)
	others.Go(func() { closed <- auditing(ctx, t, database, "") })
	made := func(s web.Status) bool {
		return s.SpaceUsedRatio != nil && *s.SpaceUsedRatio*float64(kgs.Size(6)) > 12_000
	}
	r.await("2,000 links", made) // and as many keys reserved beyond those of the first pool
	stop()
	if n := <-closed; n == 0 {
		t.Error("no audit could be done")
	}
}
