package app

import (
	"context"

	"keypool/kgs"

	"github.com/redis/go-redis/v9"
)

// openRedisIncr: a counter in Redis, breaker. Redis may well be away while the program
// starts. The ledger's books are kept for the fallback.
func (ch *chain) openRedisIncr(context.Context) error {
	redis.SetLogger(redisLog{ch.log}) // the library has one for the whole process
	client, err := kgs.OpenRedis(ch.RedisURL)
	if err != nil {
		return err
	}
	ch.life.onStop("redis", func(ctx context.Context) error { return waitFor(ctx, client.Close) })
	incr := kgs.NewRedisIncr(client, ch.ledger.Name(), ch.CodeLength, ch.log)
	ch.breaker = incr
	ch.keepBooks(ch.fail, nil)
	ch.openKeys(incr)
	return nil
}
