package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"keypool/loadtest/rounds"
	"keypool/loadtest/testbed"

	"github.com/redis/go-redis/v9"
)

const (
	refillKeys     = 20_000_000
	refillKeysFull = 100_000_000
	refillPatience = 15 * time.Minute
	// refillLook is how often Redis is asked how many keys it has, which is nothing to it.
	refillLook = 20 * time.Millisecond
)

// refilled is one filling of an empty pool.
type refilled struct {
	seconds float64 // from the start of the worker to the last key
	bytes   float64 // that Redis took for a key
	worker  float64 // the most memory that the worker had, in MiB
}

// refill measures how a worker fills the pool from nothing: ledger in PostgreSQL, FF1,
// list in Redis. How many keys there are is what Redis says.
func refill(ctx context.Context, r *run) ([]Bar, error) {
	want, count := int64(refillKeys), r.Rounds
	if r.Full {
		want, count = refillKeysFull, 1
	}
	var speed, seconds, bytes, worker rounds.Series
	for round := range count {
		f, err := r.refillOnce(ctx, want)
		if err != nil {
			return nil, err
		}
		r.Log(fmt.Sprintf("round %d of %d: %d keys: %.1f s, %.2f bytes a key, worker %.1f MiB",
			round+1, count, want, f.seconds, f.bytes, f.worker))
		speed, seconds = append(speed, float64(want)/f.seconds), append(seconds, f.seconds)
		bytes, worker = append(bytes, f.bytes), append(worker, f.worker)
	}
	million := fmt.Sprintf("%d million keys", want/1e6)
	bars := []Bar{
		{What: "refill, ledger to FF1 to Redis, " + million, Unit: rounds.PerSecond, Measured: speed, Aim: AtLeast(1.5e6)},
		{What: "memory of Redis, " + million, Unit: "bytes a key", Measured: bytes, Aim: AtMost(9)},
		{What: "memory of the worker while it fills, at the most", Unit: "MiB", Measured: worker, Aim: AtMost(64)},
	}
	if r.Full {
		bars = append(bars, Bar{What: "refill, " + million, Unit: "s", Measured: seconds, Aim: AtMost(67)})
	}
	return bars, nil
}

func (r *run) refillOnce(ctx context.Context, want int64) (f refilled, err error) {
	bed, err := testbed.New(r.Programs)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	database, err := bed.Postgres(ctx)
	if err != nil {
		return f, err
	}
	server, err := bed.Redis(ctx)
	if err != nil {
		return f, err
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer func() { err = errors.Join(err, client.Close()) }()
	before, err := usedMemory(ctx, client)
	if err != nil {
		return f, err
	}
	start := time.Now()
	worker, err := bed.Worker(ctx, "DATABASE_URL="+database.URL, "REDIS_URL="+server.URL, "KGS_POOL_CAPACITY="+strconv.FormatInt(want, 10))
	if err != nil {
		return f, err
	}
	err = testbed.Until(ctx, refillLook, refillPatience, func(ctx context.Context) (bool, error) {
		n, err := testbed.ListedKeys(ctx, client)
		if err != nil || n >= want {
			return true, err
		}
		return false, fmt.Errorf("%d of %d keys are in the pool", n, want)
	})
	f.seconds = time.Since(start).Seconds()
	if err != nil {
		return f, err
	}
	after, err := usedMemory(ctx, client)
	if err != nil {
		return f, err
	}
	f.bytes = (after - before) / float64(want)
	memory, err := residentOf(worker.PID())
	f.worker = memory.most / mebi
	return f, err
}

// usedMemory is what Redis has allocated, in bytes.
func usedMemory(ctx context.Context, client *redis.Client) (float64, error) {
	info := client.InfoMap(ctx, "memory")
	if err := info.Err(); err != nil {
		return 0, err
	}
	return strconv.ParseFloat(info.Item("Memory", "used_memory"), 64)
}
