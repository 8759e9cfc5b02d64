package server

import (
	"bytes"
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

	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/audit"
	"keypool/kgs/kgstest"
	"keypool/web/admin"
)

// load counts the creations of concurrent clients.
type load struct {
	clients       sync.WaitGroup
	made, refused atomic.Int64
}

// startClients starts four clients that create links until ctx ends.
func (r *running) startClients(ctx context.Context, l *load) {
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

// awaitMade waits until the server has accepted 100 creations. An audit must not prevent creations, but a server on a busy
// machine refuses some. Therefore the test fails only if the number of refused creations is more than a quarter of the
// number of accepted creations.
func (l *load) awaitMade(t *testing.T) {
	t.Helper()
	kgstest.Await(t, "100 creations", func() bool { return l.made.Load() >= 100 })
	if made, refused := l.made.Load(), l.refused.Load(); refused > made/4 {
		t.Errorf("%d creations were accepted during the audits, and %d were refused", made, refused)
	}
}

// audits runs n audits. If n is 0, it repeats the audit until ctx ends. The accounts of each audit must
// close, unless the audit fails with one of the given errors (excuses) or exceeds a time limit. audits
// returns the number of audits whose accounts close.
func audits(ctx context.Context, t *testing.T, database, redisURL string, n int, excuses ...error) (closed int) {
	t.Helper()
	excuses = append(excuses, context.DeadlineExceeded, os.ErrDeadlineExceeded) // errors on a busy machine
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

// A server creates links and a worker refills the pool, while Redis loses all of its data eight
// times. No audit may find a fault, and no creation may fail because of an audit.
func TestAuditFindsNoFaultWhileEpochsChange(t *testing.T) {
	t.Parallel()
	database, redisURL := testenv.PostgresURL(t), testenv.StartRedis(t).URL
	opts, err := redis.ParseURL(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opts)
	t.Cleanup(func() { client.Close() })
	r := start(t, settings(t, database, redisURL))
	r.await("a full pool", fullWithBatch)

	ctx, stop := context.WithCancel(t.Context())
	var l load
	t.Cleanup(l.clients.Wait)
	t.Cleanup(stop)
	r.startClients(ctx, &l)
	closed := 0
	l.clients.Go(func() {
		closed = audits(ctx, t, database, redisURL, 0, kgs.ErrNoEpoch, kgs.ErrFenced, audit.ErrPoolUnknown, audit.ErrEpochChanged)
	})
	epoch := int64(0)
	newEpoch := func(s admin.Status) bool { return fullWithBatch(s) && *s.Epoch > epoch }
	const losses = 8
	for range losses {
		epoch = *r.await("a full pool", newEpoch).Epoch
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	r.await("a full pool", newEpoch)
	l.awaitMade(t)
	stop()
	l.clients.Wait()
	r.stop()
	if closed == 0 {
		t.Error("no audit under load had accounts that close, want at least one")
	}
	last := auditJSON(t, database, redisURL)
	if last.status != 0 || last.InBatches != 0 || last.Abandoned[kgs.ReasonEpoch] == 0 || len(last.Epochs) < losses+1 {
		t.Errorf("last audit: exit status %d, %s, %+v", last.status, last.stderr, last.Accounts)
	}
	t.Logf("the accounts of %d audits closed; %d links in %d epochs", closed, last.Linked, len(last.Epochs))
}

// A server stops after Redis lost the pool. The pool refuses the keys of the earlier epoch, so the log does not count them as
// returned.
func TestLogOfStopDoesNotCountKeysThatPoolRefuses(t *testing.T) {
	t.Parallel()
	redisURL := testenv.StartRedis(t).URL
	opts, err := redis.ParseURL(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opts)
	t.Cleanup(func() { client.Close() })
	var log bytes.Buffer
	r := startLogging(t, settings(t, sqliteURL(t), redisURL), &log)
	epoch := *r.await("a full pool", fullWithBatch).Epoch
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	r.await("the next epoch", func(s admin.Status) bool { return fullWithBatch(s) && *s.Epoch > epoch })
	r.stop()
	if !strings.Contains(log.String(), "msg=stopped keys_returned=0 ") {
		t.Errorf("the log counts keys as returned:\n%s", &log)
	}
}

// The audits run while a server with a SQLite file and a pool in memory creates links.
func TestAuditFindsNoFaultWhileSQLiteServerCreatesLinks(t *testing.T) {
	t.Parallel()
	database := sqliteURL(t)
	r := start(t, settings(t, database, ""))
	ctx, stop := context.WithCancel(t.Context())
	var l load
	t.Cleanup(l.clients.Wait)
	t.Cleanup(stop)
	r.startClients(ctx, &l)
	closed := audits(ctx, t, database, "", 60)
	for deadline := time.Now().Add(patience); l.made.Load() < 100 && time.Now().Before(deadline); {
		closed += audits(ctx, t, database, "", 1)
	}
	if closed == 0 {
		t.Error("no audit had accounts that close, want at least one")
	}
	l.awaitMade(t)
}
