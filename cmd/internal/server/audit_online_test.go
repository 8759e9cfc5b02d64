package server

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/audit"
	"keypool/web/admin"

	"github.com/redis/go-redis/v9"
)

// load counts what concurrent clients created.
type load struct {
	clients       sync.WaitGroup
	made, refused atomic.Int64
}

// under creates links by four clients until ctx ends.
func (r *running) under(ctx context.Context, l *load) {
	for range 4 {
		l.clients.Go(func() {
			for ctx.Err() == nil {
				if err := r.createOne(ctx, l); err != nil {
					r.t.Error(err)
					return
				}
			}
		})
	}
}

func (r *running) createOne(ctx context.Context, l *load) error {
	req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost,
		"http://"+r.Addr().String()+"/shorten", strings.NewReader("url=https://go.dev/"))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusCreated:
		l.made.Add(1)
	case http.StatusServiceUnavailable: // the disk, which many tests share, may be slow for a moment
		l.refused.Add(1)
	default:
		return fmt.Errorf("POST /shorten: %s", resp.Status)
	}
	return nil
}

// wantMade fails the test unless the server accepted nearly all creations.
func (l *load) wantMade(t *testing.T) {
	t.Helper()
	made, refused := l.made.Load(), l.refused.Load()
	if made < 100 || refused > made/20 {
		t.Errorf("%d links were created during the audits and %d refused; want at least 100, and at most a twentieth refused", made, refused)
	}
}

// audits runs n audits, or audits until ctx ends if n is 0. In each one the accounts must close, or
// it must fail with one of excuses. It returns the number of those that close.
func audits(ctx context.Context, t *testing.T, database, redisURL string, n int, excuses ...error) (closed int) {
	t.Helper()
	excuses = append(excuses, context.DeadlineExceeded, os.ErrDeadlineExceeded) // of a busy machine
	for i := 0; ctx.Err() == nil && (n == 0 || i < n); i++ {
		r := auditJSON(t, database, redisURL)
		excused := slices.ContainsFunc(excuses, func(e error) bool { return strings.Contains(r.stderr, e.Error()) })
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

// While a server creates links, a worker refills the pool and Redis loses all of its data eight
// times, no audit finds a fault and no creation fails because of an audit.
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
	var l load
	t.Cleanup(l.clients.Wait)
	t.Cleanup(stop)
	r.under(ctx, &l)
	closed := 0
	l.clients.Go(func() {
		closed = audits(ctx, t, database, redisURL, 0, kgs.ErrNoEpoch, kgs.ErrFenced, audit.ErrPoolUnknown, audit.ErrEpochChanged)
	})
	epoch := int64(0)
	newEpoch := func(s admin.Status) bool { return full(s) && *s.Epoch > epoch }
	const losses = 8
	for range losses {
		epoch = *r.await("a full pool", newEpoch).Epoch
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	r.await("a full pool", newEpoch)
	stop()
	l.clients.Wait()
	l.wantMade(t)
	r.stop()
	if closed == 0 {
		t.Error("no audit could run under load")
	}
	last := auditJSON(t, database, redisURL)
	if last.status != 0 || last.InBatches != 0 || last.Abandoned[kgs.ReasonEpoch] == 0 || len(last.Epochs) < losses+1 {
		t.Errorf("last audit: exit status %d, %s, %+v", last.status, last.stderr, last.Accounts)
	}
	t.Logf("%d audits closed, %d links in %d epochs", closed, last.Linked, len(last.Epochs))
}

// Audits of the embedded setup: one process, one SQLite file, the pool in the process.
func TestAuditBesideEmbeddedServer(t *testing.T) {
	t.Parallel()
	database := sqliteURL(t)
	r := start(t, settings(t, database, ""))
	ctx, stop := context.WithCancel(t.Context())
	var l load
	t.Cleanup(l.clients.Wait)
	t.Cleanup(stop)
	r.under(ctx, &l)
	closed := audits(ctx, t, database, "", 60)
	for deadline := time.Now().Add(time.Minute); l.made.Load() < 100 && time.Now().Before(deadline); {
		closed += audits(ctx, t, database, "", 1)
	}
	if closed == 0 {
		t.Error("no audit could run")
	}
	l.wantMade(t)
}
