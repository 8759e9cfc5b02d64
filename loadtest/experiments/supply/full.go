package supply

import (
	"fmt"
	"slices"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// The pool of a large installation, and the bounds on filling it.
const (
	largeKeys      = 100_000_000
	largePatience  = 10 * time.Minute
	largeKeyBytes  = 9.0
	largeMemoryMiB = 64.0
	largeDrain     = 2 * time.Minute // the first tenth predicts what is taken
	largeWithin    = 0.02            // of what is taken
)

// The names of the claims about the large pool.
const (
	largeFillRate = "fill rate"
	largeFillTime = "fill time"
	largeKeySize  = "bytes a key"
	largeMemory   = "worker memory"
	largeTaken    = "full pool drains as predicted"
)

// filled is what a run with --full observes of the large pool.
type filled struct {
	seen     []level
	started  time.Time // the worker was
	full     level
	bytes    int64 // that Redis took for the keys
	peak     uint64
	stopped  bool // the worker was, and the members above are complete
	taken    int64
	took     time.Duration
	slope    float64 // of the first tenth of the drain, 0: unknown
	drained  bool
	unfit    string
	next     plan // of the pool that is drained to its end
	fillRate float64
}

// fillClaims are the claims about the large pool.
func fillClaims() []claim {
	about := func(kind report.Kind, name, unit, text string, judge func(*filled) experiment.Verdict) claim {
		return claim{Name: name, Text: text, Unit: unit, Kind: kind, Judge: func(r *record) experiment.Verdict {
			if r.filled == nil || !r.filled.stopped {
				return experiment.Verdict{}
			}
			return judge(r.filled)
		}}
	}
	return []claim{
		about(report.Speed, largeFillRate, "keys/s", "One worker ships at least 1.5 million keys per second from the ledger to Redis.",
			func(f *filled) experiment.Verdict {
				if f.fillRate == 0 {
					return experiment.NotJudged("the pool was seen fewer than %d times while it was filled", fewestLooks)
				}
				return experiment.AtLeast(leastRefillRate, f.fillRate, "%s keys/s", report.Number(f.fillRate)).Unless(f.unfit)
			}),
		about(report.Speed, largeFillTime, "s", "100,000,000 keys are in Redis within 67 s of the worker's start.", func(f *filled) experiment.Verdict {
			took := f.full.at.Sub(f.started).Seconds()
			return experiment.AtMost(largeKeys/leastRefillRate, took, "the last key was there after %.1f s", took).Unless(f.unfit)
		}),
		about(report.Correctness, largeKeySize, "bytes", "A key takes at most 9 bytes in Redis.", func(f *filled) experiment.Verdict {
			each := float64(f.bytes) / float64(f.full.keys)
			return experiment.AtMost(largeKeyBytes, each, "%d keys take %.2f bytes each", f.full.keys, each)
		}),
		about(report.Correctness, largeMemory, "MiB", "The worker never has more than 64 MiB of resident memory while it fills the pool.", func(f *filled) experiment.Verdict {
			peak := float64(f.peak) / (1 << 20)
			return experiment.AtMost(largeMemoryMiB, peak, "the peak is %.1f MiB", peak)
		}),
		about(report.Speed, largeTaken, "keys", "The first tenth of two minutes predicts within 2 % how many keys are taken from the full pool in them.", judgeTaken),
	}
}

func judgeTaken(f *filled) experiment.Verdict {
	switch {
	case !f.drained:
		return experiment.Verdict{}
	case f.slope == 0 || f.taken <= 0:
		return experiment.Holds(false, "the pool did not decline steadily enough to predict anything; %d keys were taken", f.taken).Unless(f.unfit)
	}
	return experiment.Within(f.slope*f.took.Seconds(), float64(f.taken), largeWithin).Unless(f.unfit)
}

// withoutFillClaims leaves out the claims that only a run with --full tests.
func withoutFillClaims(claims []report.Claim) []report.Claim {
	return slices.DeleteFunc(claims, func(c report.Claim) bool {
		return slices.ContainsFunc(fillClaims(), func(f claim) bool { return f.Name == c.Name })
	})
}

// fillFull has one worker fill a pool of 100,000,000 keys, measures Redis and the worker, and
// drains the pool for two minutes. To its end it would take a day.
func fillFull(t *experiment.T, r *record) {
	f := &filled{next: r.plan}
	r.filled = f
	t.Phase(0, "filling 100,000,000 keys")
	environment := measure.Observe()
	defer func() { f.unfit = environment.Unfit() }()
	postgres, redis := lab.Postgres(t), lab.Redis(t)
	pool := watchLevels(t, redis.URL)
	defer func() { redis.Stop(); postgres.Stop() }() // what follows needs the memory
	settings := []string{"DATABASE_URL=" + postgres.URL, "REDIS_URL=" + redis.URL, fmt.Sprintf("KGS_POOL_CAPACITY=%d", largeKeys)}
	f.fill(t, pool, lab.Worker(t, settings...))
	server := lab.Server(t, append(settings, "KGS_WORKER=false", fmt.Sprintf("KGS_BATCH_MAX=%d", 2*batch))...)
	server.Start()
	f.drain(t, pool, server)
	server.Stop()
}

// fill starts the worker, waits for the last key and stops the worker.
func (f *filled) fill(t *experiment.T, pool *levels, worker *lab.Program) {
	empty, err := pool.memory(t.Context())
	t.Must(err)
	f.started = time.Now()
	worker.Start()
	f.full, err = pool.until(t.Context(), largePatience, "100,000,000 keys are in Redis", func(l level) bool { return l.keys >= largeKeys })
	t.Must(err)
	weight, err := pool.memory(t.Context())
	t.Must(err)
	f.bytes, f.peak = weight-empty, worker.Memory().Peak
	f.seen = through(pool.seen, f.full.at)
	f.fillRate, _ = fillRate(f.seen)
	worker.Stop()
	f.stopped = true
}

// drain creates links from the full pool for a while.
func (f *filled) drain(t *experiment.T, pool *levels, server *lab.Program) {
	load := lab.Traffic(t, server)
	pulse := measure.NewPulse(t, "supply/drain", server, largeDrain)
	pulse.Enter("draining some of 100,000,000 keys")
	started := time.Now()
	passed := func(share float64) func(level) bool {
		return func(l level) bool { return l.at.Sub(started) >= time.Duration(share*float64(largeDrain)) }
	}
	load.Start(f.next.rate)
	pulse.Follow(load.Recorder())
	_, err := pool.until(t.Context(), largeDrain, "the first tenth has passed", passed(0.1))
	t.Must(err)
	early, _ := predict(since(pool.seen, started))
	f.slope = max(0, early.slope)
	_, err = pool.until(t.Context(), largeDrain+alarmPatience, "two minutes have passed", passed(1))
	t.Must(err)
	load.Stop()
	pulse.Stop()
	f.taken, f.took = taken(since(pool.seen, started))
	f.drained = true
}

// show adds the chart of the large pool.
func (f *filled) show(e *report.Experiment) {
	if !f.stopped {
		return
	}
	e.Charts = append(e.Charts, report.Chart{
		Title: "100 million keys arrive in Redis", X: report.Axis{Label: "time since the worker started", Unit: "s"},
		Y: report.Axis{Label: "keys in Redis", Unit: "keys"},
		Series: []report.Series{
			{Name: "observed", XY: thinned(line(f.seen, f.started))},
			{Name: "at 1.5 million keys/s", Predicted: true, XY: [][2]float64{{0, 0}, {largeKeys / leastRefillRate, largeKeys}}},
		},
	})
	if f.taken <= 0 {
		return
	}
	rate := float64(f.taken) / f.took.Seconds()
	e.Notes = append(e.Notes, fmt.Sprintf("At the measured %.0f keys/s a pool of 100,000,000 lasts %s, so it was drained for %v only. After it, a pool of %d keys was "+
		"drained to its end at %.0f/s. That pool is large enough to reach the levels of the dead man's switch before its rule for pools that last less than a minute.",
		rate, lasting(largeKeys/rate), largeDrain, f.next.capacity, f.next.rate))
}
