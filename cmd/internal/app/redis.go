package app

import (
	"context"
	"fmt"
	"log/slog"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/kgs/redispool"
	"keypool/kgs/refill"

	"github.com/redis/go-redis/v9"
)

// openRedis makes a client that the stop closes. It does not connect: Redis may be unreachable
// during the start.
func (c *Core) openRedis() (redis.UniversalClient, error) {
	redis.SetLogger(redisLog{c.Log}) // for the whole process; the default writes to standard error
	client, err := redispool.OpenClient(string(c.RedisURL))
	if err != nil {
		return nil, err
	}
	c.life.OnStop("redis", func(ctx context.Context) error { return program.WaitFor(ctx, client.Close) })
	return client, nil
}

// openRedisPool opens the Redis pool. It fails with a config.Error for a Redis that may evict keys.
func (c *Core) openRedisPool(ctx context.Context) error {
	client, err := c.openRedis()
	if err != nil {
		return err
	}
	c.pool = c.redisPool(client, c.holder)
	c.life.OnStop("redis holder", c.returnKeys(c.pool.Release))
	return mustNotEvict(ctx, c.pool)
}

// mustNotEvict fails when the eviction policy of Redis may lose keys. It waits for Redis a second
// at most. The dead man's switch detects a policy that is not known by then, or is changed later.
func mustNotEvict(ctx context.Context, pool *redispool.Pool) error {
	status, _ := pool.Status(ctx) // the policy is known also when the pool is not open yet
	if !status.Evicts() {
		return nil
	}
	return &config.Error{
		Name: "REDIS_URL", Got: "a Redis with maxmemory-policy " + status.Policy,
		Takes: "a Redis with maxmemory-policy noeviction, because an evicted key is lost",
	}
}

// returnKeys is a step of an orderly stop whose failure is only logged: the ledger has a record of
// keys that were not returned, and writes them off.
func (c *Core) returnKeys(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := step(ctx); err != nil {
			c.Log.Warn("return unused keys: they will be written off", slog.Any("error", err))
		}
		return nil
	}
}

func (c *Core) redisPool(client redis.UniversalClient, holder string) *redispool.Pool {
	return redispool.New(client, redispool.Config{Name: c.ledger.Name(), Holder: holder, Space: c.Space, Ledger: c.ledger})
}

// redisWorker makes a worker with connections and a holder name of its own, so that it shares
// nothing with a hung worker that it replaces.
func (c *Core) redisWorker() *refill.Worker {
	client, err := redispool.OpenClient(string(c.RedisURL))
	if err != nil {
		panic(fmt.Sprintf("app: REDIS_URL, which was valid at the start: %v", err))
	}
	holder := holderName()
	return c.worker(redispool.NewFiller(redispool.FillerConfig{
		Ledger: c.ledger, Pool: c.redisPool(client, holder), Space: c.Space, Holder: holder,
		Length: c.CodeLength, Close: client.Close, Logger: c.Log, Metrics: c.metrics,
	}))
}

func (c *Core) worker(filler refill.Filler) *refill.Worker {
	return refill.NewWorker(refill.WorkerConfig{
		Filler: filler, Capacity: c.PoolCapacity, Logger: c.Log, Metrics: c.metrics,
	})
}

// redisLog passes the messages of the Redis client about single connections on at debug level. The
// breaker reports that Redis is unreachable.
type redisLog struct{ log *slog.Logger }

// Printf implements the client's logger.
func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "redis client", slog.String("message", fmt.Sprintf(format, args...)))
}
