package app

import (
	"context"
	"fmt"
	"log/slog"

	"keypool/kgs/redispool"
	"keypool/kgs/refill"

	"github.com/redis/go-redis/v9"
)

// openRedis makes a client that a stop closes. It calls nobody: Redis may well be away while
// the program starts.
func (c *core) openRedis() (redis.UniversalClient, error) {
	redis.SetLogger(redisLog{c.log}) // one for the whole process; the library's own is standard error
	client, err := redispool.OpenClient(c.RedisURL)
	if err != nil {
		return nil, err
	}
	c.life.onStop("redis", func(ctx context.Context) error { return waitFor(ctx, client.Close) })
	return client, nil
}

// openRedisPool opens this process's side of the Redis pool. A Redis that may evict keys is
// refused.
func (c *core) openRedisPool(ctx context.Context) error {
	client, err := c.openRedis()
	if err != nil {
		return err
	}
	c.pool = c.redisPool(client, c.holder)
	c.life.onStop("redis holder", c.handBack(c.pool.Release))
	return mustNotEvict(ctx, c.pool)
}

// mustNotEvict waits for Redis for a second at most. Where that is not enough the dead
// man's switch finds out later, as it does when the policy is changed.
func mustNotEvict(ctx context.Context, pool *redispool.Pool) error {
	status, _ := pool.Status(ctx) // a pool that is not open yet tells its policy all the same
	if !status.Evicts() {
		return nil
	}
	return &SettingError{
		Name: "REDIS_URL", Got: "a Redis with maxmemory-policy " + status.Policy,
		Takes: "one with maxmemory-policy noeviction, for a key that is evicted is lost",
	}
}

// handBack is a step of an orderly stop that may fail where the pool is away: what it did
// not give back is on record and will be written off.
func (c *core) handBack(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := step(ctx); err != nil {
			c.log.Warn("keys could not be handed back and will be written off", slog.Any("error", err))
		}
		return nil
	}
}

func (c *core) redisPool(client redis.UniversalClient, holder string) *redispool.Pool {
	return redispool.New(client, redispool.Config{Name: c.ledger.Name(), Holder: holder, Space: c.space, Ledger: c.ledger})
}

// redisWorker makes a worker from nothing: connections and a name of its own, so that
// one that hangs can be replaced without a trace of it.
func (c *core) redisWorker() *refill.Worker {
	client, err := redispool.OpenClient(c.RedisURL)
	if err != nil {
		panic(fmt.Sprintf("REDIS_URL was sound and is not any more: %v", err))
	}
	holder := holderName()
	return c.worker(redispool.NewFiller(redispool.FillerConfig{
		Ledger: c.ledger, Pool: c.redisPool(client, holder), Space: c.space, Holder: holder,
		Length: c.CodeLength, Close: client.Close, Logger: c.log, Metrics: c.metrics,
	}))
}

func (c *core) worker(shipper refill.Filler) *refill.Worker {
	return refill.NewWorker(refill.WorkerConfig{
		Filler: shipper, Capacity: c.PoolCapacity, Logger: c.log, Metrics: c.metrics,
	})
}

// redisLog takes what the Redis client says of single connections into the program's
// log. That Redis is away is told by the breaker; this is for who looks closer.
type redisLog struct{ log *slog.Logger }

// Printf implements the client's logger.
func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "redis client", slog.String("says", fmt.Sprintf(format, args...)))
}
