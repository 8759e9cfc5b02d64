package redispool

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
)

// These are two alternatives to scriptPush. Like scriptPush, they push the codes and set the mark together, but they do
// not check the floor, and they count no keys. BenchmarkRedisPush compares them with scriptPush.
const (
	scriptPushSub = scriptWorker + `
local id, lo, from, to, length, text = unpack(ARGV, 2)
if (redis.call('HGET', state, 'mark:' .. id) or lo) ~= from then return 0 end
for i = 1, #text, 200 * length do
	local codes = {}
	for j = i, math.min(#text, i + 200 * length - 1), length do
		codes[#codes + 1] = string.sub(text, j, j + length - 1)
	end
	redis.call('RPUSH', keys, unpack(codes))
end
redis.call('HSET', state, 'mark:' .. id, to)
return to
`
	scriptPushArgs = scriptWorker + `
local id, lo, from, to = unpack(ARGV, 2, 5)
if (redis.call('HGET', state, 'mark:' .. id) or lo) ~= from then return 0 end
for i = 6, #ARGV, 200 do
	redis.call('RPUSH', keys, unpack(ARGV, i, math.min(i + 199, #ARGV)))
end
redis.call('HSET', state, 'mark:' .. id, to)
return to
`
)

// pusher pushes one chunk of r. text holds the codes of the numbers of the chunk, one after the other.
type pusher func(ctx context.Context, p *Pool, r ledger.Reservation, numbers codespace.Range, text []byte) error

func pushScript(ctx context.Context, p *Pool, r ledger.Reservation, numbers codespace.Range, text []byte) error {
	_, err := p.Push(ctx, r, numbers.Lo, numbers.Hi, text)
	return err
}

func pushSub(source string) pusher {
	script := redis.NewScript(source)
	return func(ctx context.Context, p *Pool, r ledger.Reservation, numbers codespace.Range, text []byte) error {
		return p.run(ctx, script, r.Epoch, r.ID, r.Lo, numbers.Lo, numbers.Hi, r.Length, text).Err()
	}
}

func pushArgs(source string) pusher {
	script := redis.NewScript(source)
	return func(ctx context.Context, p *Pool, r ledger.Reservation, numbers codespace.Range, text []byte) error {
		args := append(make([]any, 0, numbers.Len()+5), r.Epoch, r.ID, r.Lo, numbers.Lo, numbers.Hi)
		return p.run(ctx, script, appendCodes(args, text, r.Length)...).Err()
	}
}

// pushMulti pushes in a transaction. The transaction fails if another client has changed the state
// after pushMulti read it.
func pushMulti(ctx context.Context, p *Pool, r ledger.Reservation, numbers codespace.Range, text []byte) error {
	mark := "mark:" + strconv.FormatInt(r.ID, 10)
	return p.client.Watch(ctx, func(tx *redis.Tx) error {
		found, err := tx.HMGet(ctx, p.keys[0], "run", "epoch", "floor", mark).Result()
		if err != nil {
			return err
		}
		info, err := tx.Info(ctx, "replication").Result()
		if err != nil {
			return err
		}
		if !strings.Contains(info, found[0].(string)) {
			return kgs.ErrNoEpoch
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.RPush(ctx, p.keys[1], appendCodes(make([]any, 0, numbers.Len()), text, r.Length)...)
			pipe.HSet(ctx, p.keys[0], mark, numbers.Hi)
			return nil
		})
		return err
	}, p.keys[0])
}

func appendCodes(args []any, text []byte, length int) []any {
	for ; len(text) > 0; text = text[length:] {
		args = append(args, text[:length])
	}
	return args
}

// BenchmarkRedisPush compares several ways to push a chunk of codes. It reports the
// elapsed time, the processor time of Redis, and the memory for each key. The processor time does
// not depend on the load of the machine.
func BenchmarkRedisPush(b *testing.B) {
	ways := []struct {
		name string
		push pusher
	}{
		{"script, one text, struct.unpack", pushScript},
		{"script, one text, string.sub", pushSub(scriptPushSub)},
		{"script, one argument a code", pushArgs(scriptPushArgs)},
		{"WATCH, MULTI, EXEC", pushMulti},
	}
	server := testenv.StartRedis(b, "--appendonly", "no")
	client, err := OpenClient(server.URL)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := client.Close(); err != nil {
			b.Error(err)
		}
	}()
	space, err := codespace.New(make([]byte, 16))
	if err != nil {
		b.Fatal(err)
	}
	for i, way := range ways {
		p := New(client, Config{Name: strconv.Itoa(i), Holder: "bench", Space: space})
		b.Run(way.name, func(b *testing.B) { benchmarkPush(b, p, way.push) })
	}
}

func benchmarkPush(b *testing.B, p *Pool, push pusher) {
	ctx := b.Context()
	status, err := p.Status(ctx)
	if err != nil && !errors.Is(err, kgs.ErrNoEpoch) {
		b.Fatal(err)
	}
	epoch := status.Epoch + 1
	if err := p.Open(ctx, epoch, status.RunID); err != nil {
		b.Fatal(err)
	}
	r := ledger.Reservation{Range: codespace.Range{Length: 6, Hi: int64(b.N) * pushSize}, ID: 1, Epoch: epoch}
	texts := make([][]byte, 100) // made in advance, so that the benchmark measures only the push
	for i := range texts {
		lo := int64(i) * pushSize
		texts[i] = p.cfg.Space.AppendCodes(nil, codespace.Range{Length: 6, Lo: lo, Hi: lo + pushSize})
	}
	b.ReportAllocs()
	busy := redisCPU(b, p.client)
	b.ResetTimer()
	for i := range b.N {
		lo := int64(i) * pushSize
		if err := push(ctx, p, r, codespace.Range{Length: 6, Lo: lo, Hi: lo + pushSize}, texts[i%len(texts)]); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	keys := float64(b.N) * pushSize
	b.ReportMetric(keys/b.Elapsed().Seconds()/1e6, "Mkeys/s")
	b.ReportMetric((redisCPU(b, p.client)-busy)/keys*1e9, "redis-ns/key")
	size := p.client.MemoryUsage(ctx, p.keys[1], 0).Val() // with 0 samples, Redis measures every element
	b.ReportMetric(float64(size)/keys, "B/key")
	if err := p.Open(ctx, epoch+1, status.RunID); err != nil { // frees the memory
		b.Fatal(err)
	}
}

// redisCPU returns the processor time in seconds that the main thread of Redis has used.
func redisCPU(b *testing.B, client redis.UniversalClient) (seconds float64) {
	b.Helper()
	for line := range strings.Lines(client.Info(b.Context(), "cpu").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user_main_thread" || name == "used_cpu_sys_main_thread" {
			s, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			seconds += s
		}
	}
	return seconds
}
