package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/report"
	"keypool/loadtest/testbed"
)

// The pool of production, and what filling it may take.
const (
	realKeys       = 100_000_000
	realPatience   = 10 * time.Minute
	realBytesAKey  = 9.0
	realMemoryMiB  = 64.0
	realDrain      = 2 * time.Minute // of which the first tenth foretells
	realDrainAhead = 0.02            // as far as the rest may be off, as a share of what it takes
)

// The claims of the unscaled run.
const (
	claimFillRate = "fill rate"
	claimFillTime = "fill time"
	claimKeySize  = "bytes a key"
	claimMemory   = "worker memory"
	claimRealRate = "full pool drains as foretold"
)

// fillForReal has one worker fill a pool of 100 million keys in Redis, weighs both, and
// drains the pool for a while. To drain it to the end would take a day.
func (d *drainage) fillForReal(ctx context.Context) (err error) {
	d.Claim(claimFillRate, "One worker brings at least 1.5 million keys a second from the ledger into Redis.", "keys/s")
	d.Claim(claimFillTime, "From the start of the worker, 100,000,000 keys are in Redis within 67 s.", "s")
	d.Claim(claimKeySize, "There, a key takes at most 9 bytes.", "bytes")
	d.Claim(claimMemory, "The worker never has more than 64 MiB of resident memory while it fills.", "MiB")
	d.Claim(claimRealRate, "What is taken from the full pool in two minutes can be foretold within 2 % from the first tenth of them.", "keys")
	d.pulse = d.run.pulse(ctx, "drain", realDrain+90*time.Second)
	defer d.pulse.stop()
	d.pulse.enter("filling 100,000,000 keys")
	bed, err := testbed.New(d.run.Programs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	postgres, err := bed.Postgres(ctx)
	if err != nil {
		return err
	}
	redis, err := bed.Redis(ctx)
	if err != nil {
		return err
	}
	pool, err := watchLevels(redis.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.close()) }()
	settings := []string{"DATABASE_URL=" + postgres.URL, "REDIS_URL=" + redis.URL, fmt.Sprintf("KGS_POOL_CAPACITY=%d", realKeys)}
	if err := d.fill(ctx, bed, pool, settings); err != nil {
		return err
	}
	server, err := bed.Server(ctx, append(settings, "KGS_WORKER=false", fmt.Sprintf("KGS_BATCH_MAX=%d", 2*drainBatch))...)
	if err != nil {
		return err
	}
	return d.drainSome(ctx, server, pool)
}

// fill starts a worker, waits for the last key, and stops it.
func (d *drainage) fill(ctx context.Context, bed *testbed.Bed, pool *levels, settings []string) error {
	empty, err := insist(ctx, pool.memory)
	if err != nil {
		return err
	}
	started := time.Now()
	worker, err := bed.Worker(ctx, settings...)
	if err != nil {
		return err
	}
	full, err := pool.until(ctx, realPatience, "100,000,000 keys are in Redis", func(l level) bool { return l.keys >= realKeys })
	if err != nil {
		return err
	}
	weight, err := insist(ctx, pool.memory)
	if err != nil {
		return err
	}
	peak, err := peakMemory(worker.PID())
	if err != nil {
		return err
	}
	if rate, known := filling(through(pool.seen, full.at)); known {
		d.AtLeast(claimFillRate, refillRate, rate)
	} else {
		d.CannotJudge(claimFillRate, "the pool was seen fewer than %d times while it was filled", fewestLooks)
	}
	d.AtMost(claimFillTime, realKeys/refillRate, full.at.Sub(started).Seconds())
	d.AtMost(claimKeySize, realBytesAKey, float64(weight-empty)/float64(full.keys))
	d.AtMost(claimMemory, realMemoryMiB, float64(peak)/(1<<20))
	d.Charts = append(d.Charts, report.Chart{
		Title: "100 million keys come into Redis", X: report.Axis{Label: "time since the worker started", Unit: "s"},
		Y: report.Axis{Label: "keys in Redis", Unit: "keys"},
		Series: []report.Series{
			thinned(pool.series("observed", started), chartPoints),
			{Name: "at 1.5 million keys/s", Predicted: true, XY: [][2]float64{{0, 0}, {realKeys / refillRate, realKeys}}},
		},
	})
	return worker.Stop()
}

// drainSome makes links from the full pool for a while, at the rate of the scenario.
func (d *drainage) drainSome(ctx context.Context, server *testbed.Program, pool *levels) error {
	d.pulse.enter("draining some of 100,000,000 keys")
	traffic, err := NewTraffic(server.Public, loadtest.NewRecorder())
	if err != nil {
		return err
	}
	defer traffic.Close()
	d.pulse.watch(traffic.recorder, server.Admin)
	started := time.Now()
	passed := func(share float64) func(level) bool {
		return func(l level) bool { return l.at.Sub(started) >= time.Duration(share*float64(realDrain)) }
	}
	before, err := readProcessors(ctx)
	if err != nil {
		return err
	}
	flow := traffic.Start(ctx, d.rate)
	_, err = pool.until(ctx, realDrain, "the first tenth", passed(0.1))
	early, known := foretell(since(pool.seen, started))
	if err == nil {
		_, err = pool.until(ctx, realDrain+signalPatience, "the rest", passed(1))
	}
	drained := since(pool.seen, started)
	err = errors.Join(err, flow.End())
	if err != nil {
		return err
	}
	after, err := readProcessors(ctx)
	if err != nil {
		return err
	}
	taken, took := takenOf(drained)
	if !known || taken <= 0 {
		d.Judge(claimRealRate, false, "the pool did not go down steadily enough to foretell anything, and %d keys were taken of it", taken)
		d.Excuse(claimRealRate, after.others(before))
		return nil
	}
	d.Within(claimRealRate, early.slope*took.Seconds(), float64(taken), realDrainAhead)
	d.Excuse(claimRealRate, after.others(before))
	rate := float64(taken) / took.Seconds()
	d.Notes = append(d.Notes, fmt.Sprintf("At the %.0f keys/s that were taken of it, a pool of 100,000,000 lasts %s. It was drained for %v only; "+
		"to the end was drained, after it, a pool of %d keys at %.0f/s, which is big enough for the levels of the dead man's switch to be "+
		"reached before its rule for pools that last less than a minute.", rate, span(realKeys/rate), realDrain, d.capacity, d.rate))
	return nil
}

// memory is what Redis uses in all, in bytes.
func (l *levels) memory(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, levelsPatience)
	defer cancel()
	info, err := l.client.InfoMap(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
}

// peakMemory is the most resident memory that a process ever had, in bytes, as the kernel
// says it.
func peakMemory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("the kernel does not tell the memory of process %d", pid)
}
