package refill

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/kgs"
	"keypool/kgs/kgstest"
)

func newTestSwitch() *DeadMansSwitch {
	return NewDeadMansSwitch(DeadMansSwitchConfig{
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

func TestDeadManSwitchStateDependsOnKeysInPool(t *testing.T) {
	t.Parallel()
	full := look{keys: 1000, want: StateOK}
	tests := map[string][]look{
		"an empty pool that fills causes no alarm": {
			{keys: 0, want: StateFilling}, {keys: 50, want: StateFilling}, {keys: 150, want: StateFilling}, full,
		},
		"a pool that stops growing before it is full causes an alarm": append(repeat(9, look{keys: 50, want: StateFilling}),
			look{keys: 50, want: StateFilling}, look{keys: 50, want: StatePage, do: doRestart}),
		"a pool that drains causes alarms": {
			full, {keys: 200, want: StateOK}, {keys: 199, want: StateRestart, do: doRestart},
			{keys: 150, want: StateRestart}, {keys: 99, want: StatePage}, {keys: 1000, want: StateOK},
		},
		"the restarts are repeated after growing gaps": append(append([]look{full, {keys: 0, want: StatePage, do: doRestart}},
			repeat(9, look{keys: 0, want: StatePage})...),
			append(append([]look{{keys: 0, want: StatePage, do: doRestart}},
				repeat(19, look{keys: 0, want: StatePage})...), look{keys: 0, want: StatePage, do: doRestart})...),
		"one failed look changes nothing": {full, {unseen: true, want: StateOK}, full},
		"a pool that cannot be read for 10 s counts as empty": append(append([]look{full},
			repeat(9, look{unseen: true, want: StateOK})...), look{unseen: true, want: StatePage, do: doRestart}),
		"a pool that cannot be read and needs an operator causes a page at once, and a restart after 10 s": append(append([]look{full},
			repeat(9, look{unseen: true, unsafe: "another database owns the pool", want: StatePage})...),
			look{unseen: true, unsafe: "another database owns the pool", want: StatePage, do: doRestart}),
		"a pool without an epoch counts as empty after 10 s": append(append([]look{full},
			repeat(9, look{unseen: true, keys: 1000, want: StateOK})...), look{unseen: true, keys: 1000, want: StatePage, do: doRestart}),
		"a new epoch begins in the state filling": {
			{keys: 1000, epoch: 1, want: StateOK}, {keys: 0, epoch: 2, want: StateFilling},
			{keys: 500, epoch: 2, want: StateFilling}, {keys: 950, epoch: 2, want: StateOK},
		},
		"a pool that may lose keys causes a page but no restart of the worker": {
			{keys: 1000, want: StateOK}, {keys: 1000, unsafe: "may evict", want: StatePage},
			{unseen: true, want: StatePage}, {keys: 1000, unsafe: "may evict too", want: StatePage},
			{keys: 150, unsafe: "may evict", want: StatePage, do: doRestart}, {keys: 150, want: StateRestart}, full,
		},
		"a filling pool that may lose keys causes a page": {
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
func TestDeadManSwitchRestartsWorkerAndPagesIfPoolIsLow(t *testing.T) {
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
func TestDeadManSwitchPagesAtOnceIfUnreadablePoolNeedsOperator(t *testing.T) {
	t.Parallel()
	d := newTestSwitch()
	d.observe(time.Now(), observed(kgs.PoolStatus{Keys: 1000}), true)
	d.observe(time.Now(), Observation{}, false)
	if got := d.Judgement().State; got != StateOK {
		t.Errorf("the state is %s after one failed look, want ok", got)
	}
	do := d.observe(time.Now(), Observation{Unsafe: "another database owns the pool"}, false)
	if got := d.Judgement().State; got != StatePage || do != doNothing {
		t.Errorf("the state is %s and the action %v, want page and no action", got, do)
	}
}

// While the switch cannot read the pool, it does not know how many keys the pool holds. No log line and no error may then
// show the last known number, because the switch does not use this number for its decisions.
func TestDeadManSwitchLogsNumberOfKeysOnlyIfKnown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		keys  int64
		known bool
		want  []string
		gone  string // part of the error that GiveUp receives
	}{
		"low": {50, true, []string{
			`msg="pool alarm" state=page previous=ok pool_keys=50 why="the pool holds fewer than 100 keys"`,
			`msg="restarting the refill worker" pool_keys=50`,
		}, "at the last look, the pool held 50 keys;"},
		"unknown": {0, false, []string{
			`msg="pool alarm" state=page previous=ok why="the pool cannot be read"`,
			`msg="restarting the refill worker"` + "\n",
		}, "at the last look, the pool could not be read;"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newTestSwitch()
			var log bytes.Buffer
			var gone error
			d.cfg.Logger, d.cfg.Restart, d.cfg.GiveUp = slog.New(slog.NewTextHandler(&log, nil)), func() {}, func(err error) { gone = err }
			now := time.Now()
			d.observe(now, observed(kgs.PoolStatus{Keys: 1000}), true)
			for range 600 {
				now = now.Add(time.Second)
				d.act(d.observe(now, observed(kgs.PoolStatus{Keys: tt.keys}), tt.known), d.Judgement())
			}
			for _, line := range tt.want {
				if !strings.Contains(log.String(), line) {
					t.Errorf("no line %q in the log:\n%s", line, &log)
				}
			}
			if gone == nil || !strings.Contains(gone.Error(), tt.gone) {
				t.Errorf("the switch gave up with %v, want an error with %q", gone, tt.gone)
			}
		})
	}
}
