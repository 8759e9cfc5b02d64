package supply

import (
	"fmt"
	"strconv"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"

	"github.com/redis/go-redis/v9"
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
	complete    bool
	seen        []level // while the pool was filled
	started     time.Time
	full        level
	bytes       int64 // that Redis took for the keys
	peak        uint64
	fillRate    float64 // 0: unknown
	first, last level   // of the drain
	slope       float64 // of the first tenth of the drain, 0: unknown
	unfit       string
}

// fillClaims are the claims about the large pool.
func fillClaims() []claim {
	about := func(kind report.Kind, name, unit, text string, judge func(*filled) experiment.Verdict) claim {
		return claim{Name: name, Text: text, Unit: unit, Kind: kind, Judge: func(r *record) experiment.Verdict {
			if r.filled == nil || !r.filled.complete {
				return experiment.Verdict{}
			}
			v := judge(r.filled)
			if kind == report.Speed {
				v = v.Unless(r.filled.unfit)
			}
			return v
		}}
	}
	return []claim{
		about(report.Speed, largeFillRate, "keys/s", "One worker ships at least 1.5 million keys per second from the ledger to Redis.",
			func(f *filled) experiment.Verdict {
				if f.fillRate == 0 {
					return experiment.NotJudged("the pool was seen fewer than %d times while it was filled", fewestLooks)
				}
				return experiment.AtLeast(leastRefillRate, f.fillRate, "%s keys/s", report.Number(f.fillRate))
			}),
		about(report.Speed, largeFillTime, "s", "100,000,000 keys are in Redis within 67 s of the worker's start.", func(f *filled) experiment.Verdict {
			took := f.full.at.Sub(f.started).Seconds()
			return experiment.AtMost(largeKeys/leastRefillRate, took, "the last key was there after %.1f s", took)
		}),
		about(report.Correctness, largeKeySize, "bytes", "A key takes at most 9 bytes in Redis.", func(f *filled) experiment.Verdict {
			each := float64(f.bytes) / float64(f.full.keys)
			return experiment.AtMost(largeKeyBytes, each, "%d keys take %.2f bytes each", f.full.keys, each)
		}),
		about(report.Correctness, largeMemory, "MiB", "The worker never has more than 64 MiB of resident memory while it fills the pool.", func(f *filled) experiment.Verdict {
			peak := float64(f.peak) / (1 << 20)
			return experiment.AtMost(largeMemoryMiB, peak, "the peak is %.1f MiB", peak)
		}),
		about(report.Speed, largeTaken, "keys", "The first tenth of two minutes predicts within 2 % how many keys are taken from the full pool in them.", func(f *filled) experiment.Verdict {
			if f.slope == 0 {
				return experiment.Holds(false, "the pool did not decline steadily enough to predict anything")
			}
			return experiment.Within(f.slope*f.last.at.Sub(f.first.at).Seconds(), float64(f.first.keys-f.last.keys), largeWithin)
		}),
	}
}

// fillFull has one worker fill a pool of 100,000,000 keys, measures Redis and the worker, and
// drains the pool for two minutes. To its end it would take a day.
func fillFull(t *experiment.T, r *record) {
	f := &filled{}
	r.filled = f
	t.Phase(0, "filling 100,000,000 keys")
	environment := measure.Observe()
	postgres, pooled := lab.Postgres(t), lab.Redis(t)
	defer func() { pooled.Stop(); postgres.Stop() }() // what follows needs the memory
	pool, client := watchLevels(t, pooled.URL), lab.RedisClient(t, pooled.URL)
	settings := []string{"DATABASE_URL=" + postgres.URL, "REDIS_URL=" + pooled.URL, fmt.Sprintf("KGS_POOL_CAPACITY=%d", largeKeys)}
	worker := lab.Worker(t, settings...)
	empty := usedMemory(t, client)
	f.started = time.Now()
	worker.Start()
	var err error
	f.full, err = pool.until(t.Context(), largePatience, "100,000,000 keys are in Redis", func(l level) bool { return l.keys >= largeKeys })
	t.Must(err)
	f.bytes, f.peak = usedMemory(t, client)-empty, worker.Memory().Peak
	f.seen, f.fillRate = pool.seen, fillRate(pool.seen)
	worker.Stop()
	server := lab.Server(t, append(settings, "KGS_WORKER=false", fmt.Sprintf("KGS_BATCH_MAX=%d", 2*batch))...)
	server.Start()
	f.drain(t, r.rate, pool, server)
	server.Stop()
	f.unfit, f.complete = environment.Unfit(), true
}

// usedMemory is what Redis uses in all, in bytes. It asks until there is an answer.
func usedMemory(t *experiment.T, client *redis.Client) (bytes int64) {
	lab.Wait(t, lab.Patience, "Redis reports its memory", func() bool {
		var err error
		bytes, err = strconv.ParseInt(client.InfoMap(t.Context(), "memory").Item("Memory", "used_memory"), 10, 64)
		return err == nil
	})
	return bytes
}

// drain creates links from the full pool for a while.
func (f *filled) drain(t *experiment.T, rate float64, pool *levels, server *lab.Program) {
	load := lab.Traffic(t, server)
	pulse := measure.NewPulse(t, "supply/drain", server, largeDrain)
	defer pulse.Stop()
	pulse.Enter("draining some of 100,000,000 keys")
	started := time.Now()
	passed := func(share float64) level {
		due := started.Add(time.Duration(share * float64(largeDrain)))
		l, err := pool.until(t.Context(), largeDrain+patience, "two minutes have passed", func(l level) bool { return !l.at.Before(due) })
		t.Must(err)
		return l
	}
	load.Start(rate)
	pulse.Follow(load.Recorder())
	f.first = passed(0)
	passed(0.1)
	f.slope = predict(since(pool.seen, started)).slope
	f.last = passed(1)
	load.Stop()
}

// show adds the chart of the large pool.
func (f *filled) show(rate float64, e *report.Experiment) {
	e.Charts = append(e.Charts, report.Chart{
		Title: "100 million keys arrive in Redis", X: report.Axis{Label: "time since the worker started", Unit: "s"},
		Y: report.Axis{Label: "keys in Redis", Unit: "keys"},
		Series: []report.Series{
			{Name: "observed", XY: line(f.seen, f.started)},
			{Name: "at 1.5 million keys/s", Predicted: true, XY: [][2]float64{{0, 0}, {largeKeys / leastRefillRate, largeKeys}}},
		},
	})
	e.Notes = append(e.Notes, fmt.Sprintf("At %.0f/s a pool of 100,000,000 keys lasts %s, so it was drained for %v only, and then a smaller pool to its end.",
		rate, lasting(largeKeys/rate), largeDrain))
}
