package supply

import (
	"fmt"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/report"
)

// The pool of a large installation, for runs with --full.
const (
	largeKeys     = 100_000_000
	largePatience = 10 * time.Minute
	largeDrain    = 2 * time.Minute // duration of the drain; the claim predicts how many keys are taken in this time
)

// filled holds what a run with --full observes of the large pool.
type filled struct {
	complete    bool      // the run was complete, and the fields below are valid
	started     time.Time // start of the worker
	some, full  level     // the first observed level with any keys, and the first with all keys
	bytes       int64     // memory that Redis uses for the keys
	peak        uint64    // peak of the worker's memory, in bytes
	slope       float64   // keys taken per second in the first tenth of the drain; 0 if unknown
	first, last level     // the levels at the start and at the end of the drain
}

// fillClaims returns the claims about the large pool.
func fillClaims() []claim {
	about := func(kind report.Kind, name, unit, text string, judge func(*filled) experiment.Verdict) claim {
		return claim{Name: name, Text: text, Unit: unit, Kind: kind, Judge: func(r *record) experiment.Verdict {
			switch {
			case r.filled == nil:
				return experiment.NotJudged("only a run with --full fills the large pool")
			case !r.filled.complete:
				return experiment.Verdict{}
			}
			return judge(r.filled)
		}}
	}
	return []claim{
		about(report.Speed, "fill rate", "keys/s", "One worker pushes at least 1.5 million keys per second from the ledger to Redis.", func(f *filled) experiment.Verdict {
			// The time begins at the first observed keys, because the start of the first push is unknown.
			rate := float64(f.full.keys-f.some.keys) / f.full.at.Sub(f.some.at).Seconds()
			return experiment.AtLeast(leastRefillRate, rate, "the worker pushed %s keys per second", report.Number(rate))
		}),
		about(report.Speed, "fill time", "s", "Redis holds 100,000,000 keys within 67 s after the start of the worker.", func(f *filled) experiment.Verdict {
			took := f.full.at.Sub(f.started).Seconds()
			return experiment.AtMost(largeKeys/leastRefillRate, took, "the last key was in Redis after %.1f s", took)
		}),
		about(report.Correctness, "bytes per key", "bytes", "A key takes at most 9 bytes in Redis.", func(f *filled) experiment.Verdict {
			each := float64(f.bytes) / float64(f.full.keys)
			return experiment.AtMost(9, each, "each of %d keys takes %.2f bytes", f.full.keys, each)
		}),
		about(report.Correctness, "worker memory", "MiB", "The resident memory of the worker is at most 64 MiB while it fills the pool.", func(f *filled) experiment.Verdict {
			peak := float64(f.peak) / (1 << 20)
			return experiment.AtMost(64, peak, "the peak of the resident memory is %.1f MiB", peak)
		}),
		about(report.Speed, "full pool drains as predicted", "keys", "The number of keys that are taken in two minutes "+
			"differs by at most 2 % from the prediction. The prediction uses only the first tenth of this time.", func(f *filled) experiment.Verdict {
			if f.slope == 0 {
				return experiment.Holds(false, "the number of keys did not fall steadily enough for a prediction")
			}
			return experiment.Within(f.slope*f.last.at.Sub(f.first.at).Seconds(), float64(f.first.keys-f.last.keys), 0.02)
		}),
	}
}

// fillFull lets one worker fill a pool of 100,000,000 keys and measures Redis and the worker. It then drains
// the pool for only two minutes, because draining all keys would take many hours.
func fillFull(t *experiment.T, r *record) {
	f := &filled{}
	r.filled = f
	t.Phase(0, "filling 100,000,000 keys")
	postgres, pooled := lab.Postgres(t), lab.Redis(t)
	defer func() { pooled.Stop(); postgres.Stop() }() // the rest of the run needs their memory
	pool, client := watchLevels(t, pooled.URL), lab.RedisClient(t, pooled.URL)
	settings := []string{"DATABASE_URL=" + postgres.URL, "REDIS_URL=" + pooled.URL, fmt.Sprintf("KGS_POOL_CAPACITY=%d", largeKeys)}
	worker, empty := lab.Worker(t, settings...), lab.UsedMemory(t, client)
	f.started = time.Now()
	worker.Start()
	f.some = pool.must(t, largePatience, "the first keys are in Redis", func(l level) bool { return l.keys > 0 })
	f.full = pool.must(t, largePatience, "100,000,000 keys are in Redis", func(l level) bool { return l.keys >= largeKeys })
	f.bytes, f.peak = lab.UsedMemory(t, client)-empty, worker.Memory().Peak
	worker.Stop()
	server := lab.Server(t, append(settings, "KGS_WORKER=false", fmt.Sprintf("KGS_BATCH_MAX=%d", 2*batch))...)
	server.Start()
	f.drain(t, r.rate, pool, server)
	server.Stop()
	f.complete = true
}

// drain creates links from the full pool for two minutes.
func (f *filled) drain(t *experiment.T, rate float64, pool *levels, server *lab.Program) {
	load := lab.Traffic(t, server)
	t.Phase(0.1, "draining some of 100,000,000 keys")
	load.Start(rate)
	f.first = pool.must(t, patience, "Redis answers", func(level) bool { return true })
	pool.must(t, largeDrain, "the first tenth has passed", func(l level) bool { return l.at.Sub(f.first.at) >= largeDrain/10 })
	f.slope = predict(since(pool.seen, f.first.at)).slope
	f.last = pool.must(t, largeDrain+patience, "two minutes have passed", func(l level) bool { return l.at.Sub(f.first.at) >= largeDrain })
	load.Stop()
}
