package refill

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/kgs"
	"keypool/kgs/kgstest"
)

func newTestSwitch() *DeadMan {
	return NewDeadMan(DeadManConfig{
		Capacity: 1000, RestartBelow: 200, PageBelow: 100,
		Logger: slog.New(slog.DiscardHandler), Metrics: kgs.NewMetrics(prometheus.NewRegistry()),
	})
}

// look is one observation and the expected reaction. Each look is one second after the previous
// look.
type look struct {
	keys   int64
	epoch  int64
	unsafe string
	unseen bool // whether the switch cannot read the pool
	want   State
	do     action
}

func TestDeadManStateDependsOnKeysInPool(t *testing.T) {
	t.Parallel()
	full := look{keys: 1000, want: StateOK}
	tests := map[string][]look{
		"raises no alarm while an empty pool fills": {
			{keys: 0, want: StateFilling}, {keys: 50, want: StateFilling}, {keys: 150, want: StateFilling}, full,
		},
		"raises an alarm when the pool stops growing before it is full": append(repeat(9, look{keys: 50, want: StateFilling}),
			look{keys: 50, want: StateFilling}, look{keys: 50, want: StatePage, do: doRestart}),
		"raises alarms while the pool drains": {
			full, {keys: 200, want: StateOK}, {keys: 199, want: StateRestart, do: doRestart},
			{keys: 150, want: StateRestart}, {keys: 99, want: StatePage}, {keys: 1000, want: StateOK},
		},
		"restarts again after a growing gap": append(append([]look{full, {keys: 0, want: StatePage, do: doRestart}},
			repeat(9, look{keys: 0, want: StatePage})...),
			append(append([]look{{keys: 0, want: StatePage, do: doRestart}},
				repeat(19, look{keys: 0, want: StatePage})...), look{keys: 0, want: StatePage, do: doRestart})...),
		"one failed look changes nothing": {full, {unseen: true, want: StateOK}, full},
		"a pool that cannot be read for 10 s counts as empty": append(append([]look{full},
			repeat(9, look{unseen: true, want: StateOK})...), look{unseen: true, want: StatePage, do: doRestart}),
		"the size of a pool without an epoch does not count": append(append([]look{full},
			repeat(9, look{unseen: true, keys: 1000, want: StateOK})...), look{unseen: true, keys: 1000, want: StatePage, do: doRestart}),
		"a new epoch begins in the state filling": {
			{keys: 1000, epoch: 1, want: StateOK}, {keys: 0, epoch: 2, want: StateFilling},
			{keys: 500, epoch: 2, want: StateFilling}, {keys: 950, epoch: 2, want: StateOK},
		},
		"a pool that may lose keys pages but does not restart the worker": {
			{keys: 1000, want: StateOK}, {keys: 1000, unsafe: "may evict", want: StatePage},
			{unseen: true, want: StatePage}, {keys: 1000, unsafe: "may evict too", want: StatePage},
			{keys: 150, unsafe: "may evict", want: StatePage, do: doRestart}, {keys: 150, want: StateRestart}, full,
		},
		"a pool that may lose keys pages while it fills": {
			{keys: 50, want: StateFilling}, {keys: 60, unsafe: "may evict", want: StatePage},
			{keys: 70, want: StateFilling}, full,
		},
	}
	for name, looks := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newTestSwitch()
			now := time.Now()
			for i, l := range looks {
				now = now.Add(time.Second)
				do := d.observe(now, Observation{PoolStatus: kgs.PoolStatus{Keys: l.keys, Epoch: l.epoch}, Unsafe: l.unsafe}, !l.unseen)
				if got := d.Judgement(); got.State != l.want || do != l.do {
					t.Fatalf("look %d (%+v) gave the state %s and the action %v", i, l, got.State, do)
				}
			}
		})
	}
}

// observed returns an observation of a safe pool.
func observed(pool kgs.PoolStatus) Observation { return Observation{PoolStatus: pool} }

func repeat(n int, l look) (looks []look) {
	for range n {
		looks = append(looks, l)
	}
	return looks
}

// The switch observes only the pool. It must still detect a running worker that pushes no keys.
func TestDeadManRestartsAndPagesWhenPoolIsLow(t *testing.T) {
	t.Parallel()
	d, registry := newTestSwitch(), prometheus.NewRegistry()
	d.cfg.Metrics = kgs.NewMetrics(registry)
	restarts := 0
	d.cfg.Restart = func() { restarts++ }
	d.cfg.Look = func(context.Context) (Observation, error) { return observed(kgs.PoolStatus{Keys: 1000}), nil }
	d.look(t.Context())
	d.cfg.Look = func(context.Context) (Observation, error) { return observed(kgs.PoolStatus{Keys: 5}), nil }
	d.look(t.Context())
	d.cfg.Look = func(context.Context) (Observation, error) { return Observation{}, errors.New("no connection") }
	d.look(t.Context())
	counted := kgstest.Counter(t, registry, "kgs_worker_restarts_total", "")
	if pages := kgstest.Counter(t, registry, "kgs_pages_total", ""); restarts != 1 || counted != 1 || pages != 1 {
		t.Errorf("%d restarts; the metrics count %v restarts and %v pages; want one of each", restarts, counted, pages)
	}
	if j := d.Judgement(); j.Known || j.Pool.Keys != 5 {
		t.Errorf("Judgement() = %+v, want the last known size of 5, and Known false", j)
	}
}

// A pool that cannot be read may still report why it needs an operator. The switch must then page at once,
// and not after 10 s.
func TestDeadManPagesAtOnceForUnsafePoolThatCannotBeRead(t *testing.T) {
	t.Parallel()
	d := newTestSwitch()
	d.observe(time.Now(), observed(kgs.PoolStatus{Keys: 1000}), true)
	d.observe(time.Now(), Observation{}, false)
	if got := d.Judgement().State; got != StateOK {
		t.Errorf("the state is %s after one failed look, want ok", got)
	}
	d.observe(time.Now(), Observation{Unsafe: "another database owns the pool"}, false)
	if got := d.Judgement().State; got != StatePage {
		t.Errorf("the state is %s, want page", got)
	}
}
