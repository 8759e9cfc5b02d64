package kgs

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"keypool/internal/testenv"
)

// TestJanitor has a process die with a batch of the ledger and one of the pool, next
// to one whose janitor is late.
func TestJanitor(t *testing.T) {
	t.Parallel()
	l := sqliteBooks(t)
	space, err := l.Open(t.Context(), LedgerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	client := testenv.Redis(t)
	dead := NewRedisPool(client, RedisPoolConfig{Holder: "dead", Space: space, Ledger: l.Ledger})
	alive := NewRedisPool(client, RedisPoolConfig{Holder: "alive", Space: space, Ledger: l.Ledger})
	status, _ := dead.Status(t.Context()) // ErrNoEpoch: it is opened below
	if err := dead.Open(t.Context(), 1, status.RunID); err != nil {
		t.Fatal(err)
	}
	r := Range{Run: Run{Length: 6, Lo: 0, Hi: 30}, ID: 1, Epoch: 1}
	if _, err := dead.Push(t.Context(), r, r.Lo, r.Hi, space.AppendCodes(nil, r.Run)); err != nil {
		t.Fatal(err)
	}
	take(t, dead, 20)
	l.reserve(t, "dead", RangeBatch, 10)
	l.reserve(t, "alive", RangeBatch, 10)
	l.crash(t, "dead")
	l.crash(t, "alive")
	j := &Janitor{
		Ledger: l.Ledger, Holder: "alive", Pool: alive,
		Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry()),
	}
	stop := runJanitor(t, j)
	defer stop()
	abandons := j.Metrics.Abandoned(ReasonCrash)
	await(t, "the dead process's keys are counted", func() bool { return testutil.ToFloat64(abandons) == 30 })
	l.want(t, lostRow(0, 10, ReasonCrash), row(10, 20, RangeBatch, "alive"),
		BookedRange{Range: Range{Run: Run{6, 0, 20}}, State: RangeAbandoned, Reason: ReasonCrash})
}

// runJanitor runs j until stop.
func runJanitor(t *testing.T, j *Janitor) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- j.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}
