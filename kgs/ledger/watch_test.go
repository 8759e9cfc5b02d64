package ledger_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"keypool/internal/testenv/logbuffer"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
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

// The rate counts the numbers that creations use, but not the numbers that a skip-ahead skips or abandons.
func TestRateOfTakenNumbersIgnoresSkipAhead(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		var seen []ledger.Counters
		take := func() {
			r := l.MustReserve(t, "a", ledger.StateBatch, 100)
			if err := l.Settle(t.Context(), "a", r.ID, nil, nil); err != nil {
				t.Fatal(err)
			}
			c, err := l.Counters(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, c)
		}
		for range 5 {
			take()
		}
		l.MustReserve(t, "b", ledger.StateReserved, 1000)
		l.MustLend(t, "billing", "1", 50)
		l.Exec(t, `UPDATE kgs_ledger SET history = 'of another server'`)
		for range 5 {
			take()
		}
		if last := len(seen) - 1; seen[last].Taken() < codespace.Size(3)/ledger.SkipPart {
			t.Fatalf("the counters %+v show no skip-ahead", seen[last])
		}
		synctest.Test(t, func(t *testing.T) {
			reads := 0
			w := ledger.NewWatch(func(context.Context) (ledger.Counters, error) {
				reads++
				return seen[reads-1], nil
			}, 3, slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { _ = w.Run(ctx) }() // returns nil
			for i := range seen {
				if i > 0 {
					time.Sleep(2 * time.Second)
				}
				synctest.Wait()
				want := 50.0 // 100 numbers every two seconds
				if i == 0 || i == 5 {
					want = 0 // a rate needs two samples
				}
				if rate := w.Fresh().Rate; math.Abs(rate-want) > 0.1 {
					t.Errorf("read %d: the rate is %v, want %v", i+1, rate, want)
				}
			}
		})
	})
}
