package app

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/kgs"
	"keypool/kgs/ledger"
	"keypool/kgs/refill"
)

// A kgs that serves keys needs only the ledger, even if it also fills a pool. A kgs that only fills a pool needs the pool.
func TestKGSIsNotReadyIfPoolOrLedgerIsUnreadable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fills, serves bool
		noPool        error // what ready returns while the pool cannot be read
		noLedger      error // what ready returns while the ledger cannot be read
	}{
		{fills: true, noPool: errPoolUnknown},
		{serves: true, noLedger: errLedgerUnknown},
		{fills: true, serves: true, noLedger: errLedgerUnknown},
	} {
		if ends := (&kgsProgram{serves: tt.serves}).giveUp(func(error) {}) != nil; ends == tt.serves {
			t.Errorf("program %+v: a worker that keeps failing ends the program: %t, want %t", tt, ends, !tt.serves)
		}
		for _, unknown := range []struct {
			pool, ledger bool
			want         error
		}{{false, false, nil}, {true, false, tt.noPool}, {false, true, tt.noLedger}} {
			k := &kgsProgram{serves: tt.serves, counters: watchAfterRead(t, unknown.ledger)}
			if tt.fills {
				k.watch = &poolWatch{DeadMansSwitch: switchAfterRead(t, unknown.pool)}
			}
			if err := k.ready(t.Context()); !errors.Is(err, unknown.want) {
				t.Errorf("program %+v with unknown parts %+v: ready returns %v", tt, unknown, err)
			}
		}
	}
}

// watchAfterRead returns a watch that has read the ledger once. If fails is true, the read failed.
func watchAfterRead(t *testing.T, fails bool) *ledger.Watch {
	t.Helper()
	w := ledger.NewWatch(func(context.Context) (c ledger.Counters, err error) {
		if fails {
			err = errors.New("unreachable")
		}
		return c, err
	}, 6, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // Run reads the ledger before it checks ctx
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return w
}

// switchAfterRead returns a dead man's switch that has read its pool once. If fails is true, the read
// failed.
func switchAfterRead(t *testing.T, fails bool) *refill.DeadMansSwitch {
	t.Helper()
	d := refill.NewDeadMansSwitch(refill.DeadMansSwitchConfig{
		Look: func(context.Context) (refill.Observation, error) {
			if fails {
				return refill.Observation{}, errors.New("unreachable")
			}
			return refill.Observation{PoolStatus: kgs.PoolStatus{Keys: 1}}, nil
		},
		Capacity: 1, Logger: slog.New(slog.DiscardHandler), Metrics: kgs.NewMetrics(prometheus.NewRegistry()),
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // Run reads the pool before it checks ctx
	if err := d.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return d
}
