package app

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"keypool/kgs"
	"keypool/kgs/ledger"
	"keypool/kgs/refill"

	"github.com/prometheus/client_golang/prometheus"
)

// A program that does two things is ready when it can do both.
func TestKGSIsReady(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fills, serves   bool
		noPool, noBooks error // what it is not ready for when it does not see them
	}{
		{fills: true, noPool: errPoolUnseen},
		{serves: true, noBooks: errLedgerUnseen},
		{fills: true, serves: true, noPool: errPoolUnseen, noBooks: errLedgerUnseen},
	} {
		for _, unseen := range []struct {
			pool, books bool
			want        error
		}{{false, false, nil}, {true, false, tt.noPool}, {false, true, tt.noBooks}} {
			k := &kgsProgram{serves: tt.serves, counters: newLedgerWatch(nil)}
			if tt.fills {
				k.watch = &poolWatch{DeadMan: switchThatLooked(t, unseen.pool)}
			}
			if !unseen.books {
				k.counters.saw(ledger.Counters{})
			}
			if err := k.ready(t.Context()); !errors.Is(err, unseen.want) {
				t.Errorf("%+v, unseen %+v: %v", tt, unseen, err)
			}
		}
	}
}

// switchThatLooked is a dead man's switch that looked once.
func switchThatLooked(t *testing.T, inVain bool) *refill.DeadMan {
	t.Helper()
	d := refill.NewDeadMan(refill.DeadManConfig{
		Look: func(context.Context) (refill.Observation, error) {
			if inVain {
				return refill.Observation{}, errors.New("away")
			}
			return refill.Observation{PoolStatus: kgs.PoolStatus{Keys: 1}}, nil
		},
		Capacity: 1, Logger: slog.New(slog.DiscardHandler), Metrics: kgs.NewMetrics(prometheus.NewRegistry()),
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it looks before it heeds that
	if err := d.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return d
}
