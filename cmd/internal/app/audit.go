package app

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"keypool/kgs/audit"
)

// CloseAccounts audits all keys of a Core that OpenOffline opened, against the given links.
func (c *Core) CloseAccounts(ctx context.Context, links func(context.Context) iter.Seq2[audit.Linked, error]) (audit.Accounts, error) {
	var err error
	if c.Space, err = c.ledger.Identify(ctx, c.ledgerConfig()); err != nil {
		return audit.Accounts{}, err
	}
	evidence := audit.Evidence{Space: c.Space, Snapshot: c.ledger.Snapshot, Links: links}
	if c.RedisURL != "" {
		client, err := c.openRedis()
		if err != nil {
			return audit.Accounts{}, err
		}
		pool := c.redisPool(client, c.holder)
		evidence.Pool, evidence.Epoch = pool.Snapshot, pool.Epoch
	}
	accounts, err := audit.Run(ctx, evidence)
	if errors.Is(err, audit.ErrPoolUnknown) && c.RedisURL == "" {
		err = fmt.Errorf("%w; set REDIS_URL to its Redis", err)
	}
	if err == nil && c.ledgerDB != nil {
		err = accounts.AddPostgresPool(ctx, c.ledgerDB, links(ctx))
	}
	return accounts, err
}
