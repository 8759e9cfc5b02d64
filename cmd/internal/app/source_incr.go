package app

import (
	"context"

	"keypool/kgs/keysource"
)

// openRedisIncr: a counter in Redis, breaker. Redis may well be away while the program
// starts.
func (ch *chain) openRedisIncr(context.Context) error {
	client, err := ch.openRedis()
	if err != nil {
		return err
	}
	incr := keysource.NewRedisIncr(client, ch.ledger.Name(), ch.CodeLength, ch.log)
	ch.breaker = incr
	ch.openKeys(incr)
	return nil
}
