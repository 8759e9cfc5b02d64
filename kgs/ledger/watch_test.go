package ledger_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"keypool/internal/testenv/logbuffer"
	"keypool/kgs/ledger"
)

func TestLedgerWatchLogsStartAndEndOfOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logbuffer.Buffer
		var works atomic.Bool
		w := ledger.NewWatch(func(context.Context) (c ledger.Counters, err error) {
			if !works.Load() {
				err = errors.New("connection refused")
			}
			return c, err
		}, 6, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = w.Run(ctx) }() // returns nil
		time.Sleep(time.Minute)
		synctest.Wait()
		works.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "connection refused") ||
			!strings.Contains(lines[1], "level=INFO") {
			t.Errorf("an outage of a minute logged %q, want one line for its start and one for its end", lines)
		}
	})
}
