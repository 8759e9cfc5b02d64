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

	"github.com/redis/go-redis/v9"
)

// partTimeout bounds one run of one Go benchmark.
const partTimeout = time.Minute

// keys measures the functions that make and hand out keys, by Go benchmarks on one core.
func keys() *experiment.Experiment {
	return define("keys", "Making and handing out keys",
		"Go benchmarks on one core: FF1 and base62 in bulk, the inverse of one code, and the hand-out of keys from the local batch.",
		[]bar{
			{name: "FF1 and base62 in bulk", unit: measure.PerSecond, least: 8e6, text: "One core makes at least 8 million codes per second."},
			{name: "FF1 and base62, allocations", unit: "a key", most: 0.001, note: "the slices of a whole chunk are allocated",
				text: "Making codes in bulk allocates at most 0.001 times a key."},
			{name: "inverse of a code", unit: "ns", most: 500, text: "The number of one code is found within 500 ns."},
			{name: "local hand-out", unit: measure.PerSecond, least: 20e6, text: "One core hands out at least 20 million keys per second from the local batch."},
			{name: "local hand-out, p99", unit: "ns", most: 1000, note: "with the two readings of the clock that measure it",
				text: "99 of 100 keys are handed out within 1,000 ns."},
		},
		func(t *experiment.T, r *record) {
			r.repeat(rounds, func() map[string]float64 {
				codes := benchmark(t, "codespace.test", "BenchmarkSpaceCodes/AES-128/length=6", "keys/s", "ns/op", "allocs/op")
				return map[string]float64{
					"FF1 and base62 in bulk":      codes["keys/s"],
					"FF1 and base62, allocations": codes["allocs/op"] / (codes["keys/s"] * codes["ns/op"] / 1e9),
					"inverse of a code":           benchmark(t, "codespace.test", "BenchmarkSpaceNumber/AES-128/length=6", "ns/op")["ns/op"],
					"local hand-out":              benchmark(t, "kgs.test", "BenchmarkSourceNext", "keys/s")["keys/s"],
					"local hand-out, p99":         benchmark(t, "kgs.test", "BenchmarkSourceNextTimed", "p99-ns")["p99-ns"],
				}
			})
		})
}

// benchmark runs one Go benchmark, which a program that `make bench` builds holds, for a second. It
// returns the figures by their units and ends the run when one of units is missing.
func benchmark(t *experiment.T, program, name string, units ...string) map[string]float64 {
	ctx, cancel := context.WithTimeout(t.Context(), partTimeout)
	defer cancel()
	pattern := "^" + strings.ReplaceAll(name, "/", "$/^") + "$"
	cmd := exec.CommandContext(ctx, filepath.Join(t.ProgramDir(), program), "-test.run", "^$", "-test.bench", pattern, "-test.cpu", "1", "-test.benchtime", "1s")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %w; `make bench` builds it; its output:\n%s", name, err, out)
	}
	figures, err := parseBenchmark(string(out), name, units...)
	t.Must(err)
	t.Logf("%s: %v", name, figures)
	return figures
}

// parseBenchmark finds the line "NAME N FIGURE UNIT FIGURE UNIT ..." in the output of a
// benchmark. It must have a figure in each of units and may have others.
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
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			figures[fields[i+1]] = v
		}
		for _, unit := range units {
			if _, ok := figures[unit]; !ok {
				return nil, fmt.Errorf("%q: no figure in %s", line, unit)
			}
		}
		return figures, nil
	}
	return nil, errors.New("the benchmark printed no figures; its output:\n" + out)
}

const (
	refillKeys     = 20_000_000
	refillKeysFull = 100_000_000
	refillPatience = 15 * time.Minute
	refillPoll     = 20 * time.Millisecond // asking Redis for a length costs it nothing
)

// refill measures how a worker fills an empty pool. Redis says how many keys there are.
func refill() *experiment.Experiment {
	return define("refill", "Filling an empty pool",
		"A worker fills an empty pool in Redis from a ledger in PostgreSQL: 20 million keys, three times; with --full 100 million, once.",
		[]bar{
			{name: "refill", unit: measure.PerSecond, least: 3e6, text: "A worker takes at least 3 million keys per second from the ledger through FF1 to Redis."},
			{name: "memory of Redis", unit: "bytes a key", most: 9, text: "Redis takes at most 9 bytes for a key."},
			{name: "memory of the worker", unit: "MiB", most: 64, text: "The worker has at most 64 MiB resident while it fills the pool."},
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

// refillOnce fills an empty pool, from the start of the worker to the last key.
func refillOnce(t *experiment.T, keys int64) map[string]float64 {
	database, server := lab.Postgres(t), lab.Redis(t)
	defer database.Kill()
	defer server.Kill()
	client := lab.RedisClient(t, server.URL)
	before := usedMemory(t, client)
	worker := lab.Worker(t, "DATABASE_URL="+database.URL, "REDIS_URL="+server.URL, "KGS_POOL_CAPACITY="+strconv.FormatInt(keys, 10))
	begun := time.Now()
	worker.Launch()
	t.Must(lab.Until(t.Context(), refillPoll, refillPatience, func(ctx context.Context) (bool, error) {
		n, err := lab.ListedKeys(ctx, client)
		return err != nil || n >= keys, err
	}))
	seconds := time.Since(begun).Seconds()
	figures := map[string]float64{
		"refill":               float64(keys) / seconds,
		"time of the refill":   seconds,
		"memory of Redis":      (usedMemory(t, client) - before) / float64(keys),
		"memory of the worker": float64(worker.Memory().Peak) / mebi,
	}
	worker.Stop()
	t.Logf("%d keys: %v", keys, figures)
	return figures
}

// usedMemory is what Redis has allocated, in bytes.
func usedMemory(t *experiment.T, client *redis.Client) float64 {
	info := client.InfoMap(t.Context(), "memory")
	t.Must(info.Err())
	used, err := strconv.ParseFloat(info.Item("Memory", "used_memory"), 64)
	t.Must(err)
	return used
}
