package simulate

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
	"keypool/kgs/redispool"
)

// BenchmarkRedisPoolCallTimes measures the times of calls of the real pool in Redis, from which the constants of the model
// of Redis come. It reports the smallest time of many calls, because other programs on the machine can only make a call
// slower.
func BenchmarkRedisPoolCallTimes(b *testing.B) {
	server := testenv.StartRedis(b, "--appendonly", "no")
	client, err := redispool.OpenClient(server.URL)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := client.Close(); err != nil {
			b.Error(err)
		}
	}()
	pool := redispool.New(client, redispool.Config{Holder: "times", Space: codespace.Plain()})
	status, err := pool.Status(b.Context())
	if !errors.Is(err, kgs.ErrNoEpoch) {
		b.Fatal(err)
	}
	if err := pool.Open(b.Context(), 1, status.RunID); err != nil {
		b.Fatal(err)
	}
	const chunk, chunks = 10_000, 100
	var push, small, large, settle []time.Duration
	timed := func(all *[]time.Duration, call func() error) {
		began := time.Now()
		if err := call(); err != nil {
			b.Fatal(err)
		}
		*all = append(*all, time.Since(began))
	}
	r := ledger.Reservation{ID: 1, Range: codespace.Range{Length: 6, Lo: 0, Hi: chunk * chunks}, Epoch: 1}
	codes := []byte(strings.Repeat("abcdef", chunk))
	for lo := r.Lo; lo < r.Hi; lo += chunk {
		timed(&push, func() error {
			_, err := pool.Push(b.Context(), r, lo, lo+chunk, codes)
			return err
		})
	}
	for b.Loop() {
		var batch *kgs.Batch
		take := func(n int) func() error {
			return func() (err error) {
				batch, err = pool.Take(b.Context(), n)
				return err
			}
		}
		for range 40 {
			timed(&small, take(100))
			timed(&settle, func() error { return pool.Settle(b.Context(), batch, nil, nil) })
			timed(&large, take(10_000))
			if err := pool.Settle(b.Context(), batch, batch.Codes, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	for name, all := range map[string][]time.Duration{"push-10000-µs": push, "take-100-µs": small, "take-10000-µs": large, "settle-µs": settle} {
		b.ReportMetric(float64(slices.Min(all).Microseconds()), name)
	}
}
