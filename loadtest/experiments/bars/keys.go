package bars

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
)

// partTimeout is the time limit of one run of one Go benchmark.
const partTimeout = time.Minute

// keys measures the functions that make and hand out keys, with Go benchmarks on one core.
func keys() *experiment.Experiment {
	return define("keys", "Making and handing out keys",
		"Go benchmarks on one core make codes in bulk with FF1 and base62, find the number of one code, and hand out keys from the local batch.",
		[]bar{
			{name: "FF1 and base62 in bulk", unit: measure.PerSecond, least: 8e6, text: "One core makes at least 8 million codes per second."},
			{name: "FF1 and base62, allocations", unit: "a key", most: 0.001, note: "memory is allocated for the slices of a whole chunk, and not for each key",
				text: "Making codes in bulk allocates memory at most 0.001 times per key."},
			{name: "code to number", unit: "ns", most: 500, text: "Finding the number of one code takes at most 500 ns."},
			{name: "local hand-out", unit: measure.PerSecond, least: 20e6, text: "One core hands out at least 20 million keys per second from the local batch."},
			{name: "local hand-out, p99", unit: "ns", most: 1000, note: "the time includes the two readings of the clock that measure it",
				text: "99 of 100 keys are handed out within 1,000 ns."},
		},
		func(t *experiment.T, r *record) {
			r.repeat(rounds, func() map[string]float64 {
				codes := benchmark(t, "codespace.test", "BenchmarkSpaceCodes/AES-128/length=6", "keys/s", "ns/op", "allocs/op")
				return map[string]float64{
					"FF1 and base62 in bulk":      codes["keys/s"],
					"FF1 and base62, allocations": codes["allocs/op"] / (codes["keys/s"] * codes["ns/op"] / 1e9),
					"code to number":              benchmark(t, "codespace.test", "BenchmarkSpaceNumber/AES-128/length=6", "ns/op")["ns/op"],
					"local hand-out":              benchmark(t, "kgs.test", "BenchmarkSourceNext", "keys/s")["keys/s"],
					"local hand-out, p99":         benchmark(t, "kgs.test", "BenchmarkSourceNextTimed", "p99-ns")["p99-ns"],
				}
			})
		})
}

// benchmark runs one Go benchmark for a second. `make bench` builds the program that contains the
// benchmark. benchmark returns the figures by their units. It ends the run if one of units is missing.
func benchmark(t *experiment.T, program, name string, units ...string) map[string]float64 {
	ctx, cancel := context.WithTimeout(t.Context(), partTimeout)
	defer cancel()
	pattern := "^" + strings.ReplaceAll(name, "/", "$/^") + "$"
	cmd := exec.CommandContext(ctx, filepath.Join(t.ProgramDir(), program), "-test.run", "^$", "-test.bench", pattern, "-test.cpu", "1", "-test.benchtime", "1s")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("run the benchmark %s: %w; `make bench` builds its program; its output:\n%s", name, err, out)
	}
	figures, err := parseBenchmark(string(out), name, units...)
	t.Must(err)
	t.Logf("%s: %v", name, figures)
	return figures
}

// parseBenchmark finds the line "NAME N FIGURE UNIT FIGURE UNIT ..." in the output of a
// benchmark. The line must have a figure in each of units and may have figures in other units.
func parseBenchmark(out, name string, units ...string) (map[string]float64, error) {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || len(fields)%2 != 0 || fields[0] != name {
			continue
		}
		figures := make(map[string]float64)
		for i := 2; i < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("parse the line %q: %w", line, err)
			}
			figures[fields[i+1]] = v
		}
		for _, unit := range units {
			if _, ok := figures[unit]; !ok {
				return nil, fmt.Errorf("the line %q has no figure in %s", line, unit)
			}
		}
		return figures, nil
	}
	return nil, errors.New("the benchmark printed no figures; its output:\n" + out)
}

const (
	refillKeys     = 20_000_000  // keys in a full pool
	refillKeysFull = 100_000_000 // keys in a full pool with --full
	refillPatience = 15 * time.Minute
	refillPoll     = 20 * time.Millisecond // pause between two reads of the number of keys
)

// refill measures how fast a worker fills an empty pool. It counts the keys in Redis.
func refill() *experiment.Experiment {
	return define("refill", "Filling an empty pool",
		"A worker fills an empty pool in Redis from a ledger in PostgreSQL. Each of three runs fills a pool of 20 million keys. With --full, one run fills a pool of 100 million keys.",
		[]bar{
			{name: "refill rate", unit: measure.PerSecond, least: 3e6, text: "A worker reserves, permutes (FF1) and pushes to Redis at least 3 million keys per second."},
			{name: "memory of Redis", unit: "bytes a key", most: 9, text: "Redis uses at most 9 bytes of memory per key."},
			{name: "memory of the worker", unit: "MiB", most: 64, text: "The resident memory of the worker is at most 64 MiB while it fills the pool."},
			{name: "time of the refill", unit: "s"},
		},
		func(t *experiment.T, r *record) {
			keys, count := int64(refillKeys), rounds
			if t.Full {
				keys, count = refillKeysFull, 1
			}
			r.repeat(count, func() map[string]float64 { return refillOnce(t, keys) })
		})
}

// refillOnce fills an empty pool. It measures the time from the start of the worker until the pool has all keys.
func refillOnce(t *experiment.T, keys int64) map[string]float64 {
	database, server := lab.Postgres(t), lab.Redis(t)
	defer database.Kill()
	defer server.Kill()
	client := lab.RedisClient(t, server.URL)
	before := lab.UsedMemory(t, client)
	worker := lab.Worker(t, "DATABASE_URL="+database.URL, "REDIS_URL="+server.URL, "KGS_POOL_CAPACITY="+strconv.FormatInt(keys, 10))
	begun := time.Now()
	worker.Launch()
	t.Must(lab.Until(t.Context(), refillPoll, refillPatience, func(ctx context.Context) (bool, error) {
		n, err := lab.ListedKeys(ctx, client)
		return err != nil || n >= keys, err
	}))
	seconds := time.Since(begun).Seconds()
	figures := map[string]float64{
		"refill rate":          float64(keys) / seconds,
		"time of the refill":   seconds,
		"memory of Redis":      float64(lab.UsedMemory(t, client)-before) / float64(keys),
		"memory of the worker": float64(worker.Memory().Peak) / mebi,
	}
	worker.Stop()
	t.Logf("%d keys: %v", keys, figures)
	return figures
}
