package app

import (
	"context"

	"keypool/kgs/keysource"
)

// openRedisIncr: a counter in Redis, breaker. Redis may be unreachable during the start.
func (ch *Chain) openRedisIncr(context.Context) error {
	client, err := ch.openRedis()
	if err != nil {
		return err
	}
	incr := keysource.NewRedisIncr(client, ch.ledger.Name(), ch.CodeLength, ch.Log)
	ch.breaker = incr
	ch.openKeys(incr)
	return nil
}
