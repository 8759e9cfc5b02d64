package app

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/cmd/internal/config"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
	"keypool/kgs/redispool"
	"keypool/kgs/refill"
	"keypool/web/admin"
)

// spaceStatus returns what /status says about the space of the codes of three characters. The ledger has been read once, with
// the result seen. pool is the watch of a pool that has been read once, or nil for no pool.
func spaceStatus(t *testing.T, c *Core, seen ledger.Counters, pool *poolWatch) (s admin.Status) {
	t.Helper()
	c.Common = config.Common{CodeLength: 3}
	w := ledger.NewWatch(func(context.Context) (ledger.Counters, error) { return seen, nil }, c.CodeLength, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // Run reads the ledger before it checks ctx
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	c.describeSpace(&s, w, pool)
	return s
}

// poolOf returns the watch of a pool that the dead man's switch has read once.
func poolOf(t *testing.T, keys int64, err error) *poolWatch {
	t.Helper()
	return poolSeen(t, refill.Observation{PoolStatus: kgs.PoolStatus{Keys: keys}}, err)
}

// poolSeen returns the watch of a full pool for which the dead man's switch has made one observation.
func poolSeen(t *testing.T, seen refill.Observation, err error) *poolWatch {
	t.Helper()
	d := refill.NewDeadMansSwitch(refill.DeadMansSwitchConfig{
		Look:     func(context.Context) (refill.Observation, error) { return seen, err },
		Capacity: seen.Keys, Logger: slog.New(slog.DiscardHandler), Metrics: kgs.NewMetrics(prometheus.NewRegistry()),
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // Run reads the pool before it checks ctx
	if err := d.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return &poolWatch{DeadMansSwitch: d}
}

// The runway of the space is the time until all its codes are used. It depends on the rate at which servers take keys. With a pool
// in Redis, this rate is unknown while the pool cannot be read.
func TestSpaceRunwayIsUnknownWhilePoolIsUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone atomic.Bool
		began := time.Now()
		pool := &poolWatch{DeadMansSwitch: refill.NewDeadMansSwitch(refill.DeadMansSwitchConfig{
			Look: func(context.Context) (refill.Observation, error) {
				if gone.Load() {
					return refill.Observation{}, errors.New("unreachable")
				}
				return refill.Observation{PoolStatus: kgs.PoolStatus{Keys: 1000, Taken: int64(time.Since(began).Seconds())}}, nil
			},
			Capacity: 1000, Logger: slog.New(slog.DiscardHandler), Metrics: kgs.NewMetrics(prometheus.NewRegistry()),
		})}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = pool.Run(ctx) }() // returns nil
		seen := ledger.Counters{Spaces: []ledger.SpaceCounter{{Length: 3, Size: 2000, Next: 1000}}}
		time.Sleep(time.Minute)
		if s := spaceStatus(t, &Core{pool: &redispool.Lists{}}, seen, pool); s.SpaceRunwaySeconds == nil || math.Abs(*s.SpaceRunwaySeconds-1000) > 1 {
			t.Errorf("status %+v: want a runway of 1,000 s for the remaining 1,000 numbers", s)
		}
		gone.Store(true)
		time.Sleep(2 * time.Second)
		if s := spaceStatus(t, &Core{pool: &redispool.Lists{}}, seen, pool); s.SpaceRunwaySeconds != nil {
			t.Errorf("the runway is %v s although the pool cannot be read, want unknown", *s.SpaceRunwaySeconds)
		}
	})
}

// A new ledger has no reserved number. The used ratio is unknown until the server has read the ledger after the first reservation.
func TestUsedRatioOfSpaceIsUnknownBeforeFirstReservation(t *testing.T) {
	t.Parallel()
	for next, known := range map[int64]bool{0: false, 1: true} {
		s := spaceStatus(t, &Core{}, ledger.Counters{Spaces: []ledger.SpaceCounter{{Length: 3, Size: codespace.Size(3), Next: next}}}, nil)
		if (s.SpaceUsedRatio != nil) != known {
			t.Errorf("with %d reserved numbers, the used ratio is known: %t, want %t", next, !known, known)
		}
	}
}

// A random code conflicts with the code of a link, but not with a key that waits in a pool.
func TestExpectedNumberOfFallbackAttemptsIgnoresKeysInPools(t *testing.T) {
	t.Parallel()
	size := codespace.Size(3)
	for name, tt := range map[string]struct {
		core *Core
		held map[int]int64
		pool *poolWatch
		want float64 // 0 for unknown
	}{
		"a pool in memory":                   {&Core{}, map[int]int64{3: 200_000, 4: 7}, poolOf(t, 200_000, nil), 1.004},
		"a pool in Redis":                    {&Core{pool: &redispool.Lists{}}, nil, poolOf(t, 200_000, nil), 1.004},
		"a pool in Redis that is unreadable": {&Core{pool: &redispool.Lists{}}, nil, poolOf(t, 200_000, errors.New("unreachable")), 0},
		"a list that does not answer":        {&Core{pool: &redispool.Lists{}}, nil, poolSeen(t, refill.Observation{PoolStatus: kgs.PoolStatus{Keys: 100_000, Partial: true}}, nil), 0},
		"newer keys in Redis":                {&Core{pool: &redispool.Lists{}}, nil, poolOf(t, 202_000, nil), 1},
		"no pool":                            {&Core{}, nil, nil, float64(size) / float64(size-201_000)},
	} {
		s := spaceStatus(t, tt.core, ledger.Counters{Spaces: []ledger.SpaceCounter{{Length: 3, Size: size, Next: 201_000}}, Held: tt.held}, tt.pool)
		if got := s.FallbackAttemptsExpected; (got != nil) != (tt.want > 0) || got != nil && math.Abs(*got-tt.want) > 0.001 {
			t.Errorf("%s: %v attempts expected, want %v", name, got, tt.want)
		}
	}
}

// A pool may need an operator for another reason than the eviction policy, such as a second worker that opens epochs. may_evict
// does not depend on such a reason.
func TestMayEvictDependsOnlyOnEvictionPolicy(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]bool{"noeviction": false, "allkeys-lru": true} {
		status := func(context.Context) (redispool.Status, error) {
			return redispool.Status{PoolStatus: kgs.PoolStatus{Keys: 1}, Policy: policy, Cause: "another worker opens epochs"}, nil
		}
		seen, err := observeRedis(status)(t.Context())
		var s admin.Status
		poolSeen(t, seen, err).describe(&s)
		if s.MayEvict == nil || *s.MayEvict != want || s.State != string(refill.StatePage) {
			t.Errorf("policy %s: status %+v; want may_evict %v and the state page", policy, s, want)
		}
	}
}
