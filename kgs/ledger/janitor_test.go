package ledger_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
	"keypool/kgs/redispool"
)

// TestJanitorAbandonsBatchesOfDeadHolders checks that the janitor of one process abandons the
// batches of a dead process in the ledger and in the pool. The ledger has declared the process of the
// janitor dead too. The batch of this process stays, because the janitor records a heartbeat before it
// calls Sweep.
func TestJanitorAbandonsBatchesOfDeadHolders(t *testing.T) {
	t.Parallel()
	l := kgstest.NewSQLiteLedger(t)
	space, err := l.Open(t.Context(), ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	client := testenv.Redis(t)
	dead := redispool.New(client, redispool.Config{Holder: "dead", Space: space, Ledger: l.Ledger})
	alive := redispool.New(client, redispool.Config{Holder: "alive", Space: space, Ledger: l.Ledger})
	status, _ := dead.Status(t.Context()) // fails with ErrNoEpoch, because the pool is not open yet
	if err := dead.Open(t.Context(), 1, status.RunID); err != nil {
		t.Fatal(err)
	}
	r := ledger.Reservation{Range: codespace.Range{Length: 6, Lo: 0, Hi: 30}, ID: 1, Epoch: 1}
	if _, err := dead.Push(t.Context(), r, r.Lo, r.Hi, space.AppendCodes(nil, r.Range)); err != nil {
		t.Fatal(err)
	}
	kgstest.Take(t, dead, 20)
	l.MustReserve(t, "dead", ledger.StateBatch, 10)
	l.MustReserve(t, "alive", ledger.StateBatch, 10)
	l.DeclareDead(t, "dead")
	l.DeclareDead(t, "alive")
	registry := prometheus.NewRegistry()
	j := &ledger.Janitor{
		Ledger: l.Ledger, Holder: "alive", Pool: alive,
		Logger: slog.New(slog.DiscardHandler), Metrics: kgs.NewMetrics(registry),
	}
	stop := runJanitor(t, j)
	defer stop()
	kgstest.Await(t, "the janitor counts the keys of the dead process", func() bool {
		return kgstest.Counter(t, registry, "kgs_keys_abandoned_total", kgs.ReasonCrash) == 30
	})
	l.WantRows(t, kgstest.AbandonedRow(0, 10, kgs.ReasonCrash), kgstest.Row(10, 20, ledger.StateBatch, "alive"),
		ledger.Row{Reservation: ledger.Reservation{Range: codespace.Range{Length: 6, Lo: 0, Hi: 20}}, State: ledger.StateAbandoned, Reason: kgs.ReasonCrash})
}

// runJanitor runs j until the test calls stop.
func runJanitor(t *testing.T, j *ledger.Janitor) (stop func()) {
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
