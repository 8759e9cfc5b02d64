// Package keysource has the key sources that make a code at the moment a creation wants one,
// without a local batch: [RedisIncr], [Tickets], [Snowflake], [Hash], [UUID] and [Random].
// Each is a [kgs.Generator]. What keeps a source from giving a code twice is in the comment
// of its type; where nothing does, the primary key of the link store refuses the second one.
package keysource

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

const (
	// incrTimeout bounds one call of Redis: a creation waits for it.
	incrTimeout = 250 * time.Millisecond
	// maxGallop bounds the steps of a search to 2^20. Who lays an alias in the way of the
	// counter costs it no more of the space than that.
	maxGallop = 20
)

// RedisIncr numbers the links with one counter in Redis, a round trip for each. The number
// in base 62, padded with zeros, is the code: whoever has seen one knows the others. When
// a length is used up the codes become longer, up to MaxLength.
//
// A Redis that lost data counts again what it counted before, and the store refuses the
// codes: they are links. Each conflict doubles the step to the next number, which is a
// galloping search (Bentley and Yao, An almost optimal algorithm for unbounded searching,
// 1976): a million lost numbers take twenty attempts, and up to as many are left out.
//
// All methods may be called concurrently.
type RedisIncr struct {
	client  redis.UniversalClient
	counter string
	length  int
	timeout time.Duration // of one call
	circuit *gobreaker.CircuitBreaker[int64]
}

var _ kgs.Generator = (*RedisIncr)(nil)

// NewRedisIncr makes a generator of codes of at least the given length. All that are made
// with one name on one Redis share a counter. It does not call Redis. The client must not
// repeat by itself what may have run (see redispool.OpenClient), and remains the caller's to close.
func NewRedisIncr(client redis.UniversalClient, name string, length int, log *slog.Logger) *RedisIncr {
	return &RedisIncr{
		client:  client,
		counter: "keypool:{" + name + "}:counter",
		length:  length,
		timeout: incrTimeout,
		circuit: kgs.NewCircuit[int64](nil, log.With(slog.String("of", "counter"))),
	}
}

// Next waits for Redis for 250 ms at most, and not at all after three calls in a row have
// failed, but for one a second: see [kgs.Breaker]. A number whose answer was lost is left out.
func (r *RedisIncr) Next(ctx context.Context, _ string, attempt int) (kgs.Key, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	n, err := r.circuit.Execute(func() (int64, error) {
		return r.client.IncrBy(ctx, r.counter, 1<<min(attempt, maxGallop)).Result()
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

// State is closed (0), half-open (1) or open (2).
func (r *RedisIncr) State() gobreaker.State { return r.circuit.State() }

// plainCode writes n in base 62 with at least the given number of digits. It fails with
// ErrExhausted where that takes more than MaxLength.
func plainCode(length int, n int64) (string, error) {
	for ; length <= codespace.MaxLength; length++ {
		if n < codespace.Size(length) {
			return string(codespace.AppendBase62(nil, length, n)), nil
		}
	}
	return "", kgs.ErrExhausted
}
