package keysource

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"keypool/kgs"
)

const (
	// incrTimeout is the time limit of one call of Next. It is short, because a creation waits for the call.
	incrTimeout = 250 * time.Millisecond
	// maxGallop limits the step of the galloping search to 2^20; see RedisIncr. Even if Redis lost no
	// data, a client can cause conflicts by choosing the next codes of the counter as aliases. Because
	// of the limit, each of these conflicts skips at most 2^20 numbers.
	maxGallop = 20
)

// skipCounter moves the counter to ARGV[1] if the counter is lower than ARGV[1]. It returns how many numbers it
// skipped. It uses only INCRBY, because the Redis user may have no right to use other commands. Lua rounds numbers
// above 2^53. The rounding error is below 2^8, and the margin (skipMargin) is much larger. The error does no harm,
// because no code is made from the result, and the script never moves the counter back.
const skipCounter = `
local skipped = tonumber(ARGV[1]) - redis.call('INCRBY', KEYS[1], 0)
if skipped <= 0 then
	return 0
end
redis.call('INCRBY', KEYS[1], string.format('%.0f', skipped))
return skipped`

// RedisIncr numbers the links with one counter in Redis, with one round trip for each number.
// The code is the number in base 62, padded with zeros. So anyone who has one code can guess the
// other codes. When all codes of a length are used up, the codes become longer, up to MaxLength.
//
// The high-water mark of a running process is the highest number that it took. If Redis has lost data, it may return a
// number that is not above the mark. The process then discards the number, moves the counter to the mark plus a margin
// (see skipMargin), and logs the skip. The margin covers numbers that other processes took before the loss.
//
// After a loss of data, Redis returns some numbers a second time. A process whose mark is below these numbers does not
// notice the loss, and issues the numbers a second time. The repetition stops when a process with a higher mark skips
// ahead. If no such process runs, no process skips ahead. The store then refuses the codes for which links exist. To
// find an unused number in few attempts, each conflict of a creation doubles the step to the next number. This is a
// galloping search (Bentley and Yao, "An almost optimal algorithm for unbounded searching", 1976). If the counter lost
// a million numbers, the search takes 20 attempts. Above the lost numbers, it skips at most a million numbers.
//
// All methods are safe for concurrent use.
type RedisIncr struct {
	client  redis.UniversalClient
	counter string
	length  int
	timeout time.Duration // time limit of one Next
	seen    *highWater
	skip    *redis.Script
	circuit *gobreaker.CircuitBreaker[int64]
}

var _ kgs.Generator = (*RedisIncr)(nil)

// NewRedisIncr returns a generator of codes that have at least length characters. All generators
// with the same prefix and name on the same Redis share a counter. NewRedisIncr does not call Redis. The client
// must not retry commands that may have run (see redispool.OpenClient). The caller closes the
// client.
func NewRedisIncr(client redis.UniversalClient, prefix, name string, length int, log *slog.Logger) *RedisIncr {
	log = log.With(slog.String("of", "counter"))
	return &RedisIncr{
		client:  client,
		counter: prefix + ":{" + name + "}:counter",
		length:  length,
		timeout: incrTimeout,
		seen:    &highWater{length: length, log: log},
		skip:    redis.NewScript(skipCounter),
		circuit: kgs.NewCircuit[int64](nil, log),
	}
}

// Next returns the key of a new number. It waits for Redis for at most 250 ms. After three failed calls
// in a row, only one Next per second calls Redis, and all other calls fail at once; see [kgs.Breaker]. If
// a reply is lost, the number in the reply is never issued.
func (r *RedisIncr) Next(ctx context.Context, _ string, attempt int) (kgs.Key, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	step := int64(1) << min(attempt, maxGallop)
	n, err := r.circuit.Execute(func() (int64, error) {
		return r.seen.next(func() (first, last int64, err error) {
			last, err = r.client.IncrBy(ctx, r.counter, step).Result()
			return last - (step - 1), last, err
		}, func(to int64) (skipped int64, err error) {
			return r.skip.Run(ctx, r.client, []string{r.counter}, to).Int64()
		})
	})
	if err != nil {
		return kgs.Key{}, fmt.Errorf("%w: the counter in Redis: %w", kgs.ErrNoKeys, err)
	}
	code, err := plainCode(r.length, n)
	if err != nil {
		return kgs.Key{}, fmt.Errorf("%w: the counter in Redis is at %d: %w", kgs.ErrNoKeys, n, err)
	}
	return kgs.Key{Code: code, Source: kgs.SourceRedisIncr}, nil
}

// State returns the state of the circuit breaker: closed (0), half-open (1) or open (2).
func (r *RedisIncr) State() gobreaker.State { return r.circuit.State() }
