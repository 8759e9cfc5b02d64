package app

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

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/web/admin"

	"github.com/redis/go-redis/v9"
)

// load is what several clients at once made of a server.
type load struct {
	clients       sync.WaitGroup
	made, refused atomic.Int64
}

// under makes links until ctx ends.
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
	case http.StatusServiceUnavailable: // a disk that many tests share has its moments
		l.refused.Add(1)
	default:
		return fmt.Errorf("POST /shorten: %s", resp.Status)
	}
	return nil
}

// wantMade fails unless the server was there for its clients all along.
func (l *load) wantMade(t *testing.T) {
	t.Helper()
	made, refused := l.made.Load(), l.refused.Load()
	if made < 100 || refused > made/20 {
		t.Errorf("%d links were made beside the audits and %d refused", made, refused)
	}
}

// audits audits n times, or without n until ctx ends. Each audit must find that the
// accounts close, or tell that it could not be done because of one of excuses.
// It counts the former.
func audits(ctx context.Context, t *testing.T, database, redisURL string, n int, excuses ...error) (closed int) {
	t.Helper()
	excuses = append(excuses, context.DeadlineExceeded, os.ErrDeadlineExceeded) // of a machine that is busy
	for i := 0; ctx.Err() == nil && (n == 0 || i < n); i++ {
		r := audit(t, database, redisURL)
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
	var l load
	t.Cleanup(l.clients.Wait)
	t.Cleanup(stop)
	r.under(ctx, &l)
	closed := 0
	l.clients.Go(func() {
		closed = audits(ctx, t, database, redisURL, 0, kgs.ErrNoEpoch, kgs.ErrFenced, kgs.ErrPoolUnknown, kgs.ErrEpochChanged)
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
		t.Error("no audit could be done under load")
	}
	last := audit(t, database, redisURL)
	if last.status != 0 || last.InBatches != 0 || last.Abandoned[kgs.ReasonEpoch] == 0 || len(last.Epochs) < losses+1 {
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
	var l load
	t.Cleanup(l.clients.Wait)
	t.Cleanup(stop)
	r.under(ctx, &l)
	if audits(ctx, t, database, "", 60) == 0 {
		t.Error("no audit could be done")
	}
	l.wantMade(t)
}
