package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/operate"
	"keypool/kgs/audit"
)

// auditFlags are those of the command audit.
type auditFlags struct {
	JSON bool `name:"json" help:"Print the accounts as JSON."`
}

// runAudit closes the accounts of all keys. Its exit status is 0 when they close, 1 when they do
// not, and 2 when the audit could not run.
func runAudit(ctx context.Context, c console, s config.Common, audit auditFlags) int {
	accounts, err := closeAccounts(ctx, s, c.errors)
	if err == nil {
		err = operate.PrintAccounts(c.out, accounts, audit.JSON)
	}
	switch {
	case err != nil:
		c.complain(fmt.Errorf("audit: %w", err))
		return 2
	case len(accounts.Faults) > 0:
		return 1
	}
	return 0
}

func closeAccounts(ctx context.Context, s config.Common, log io.Writer) (_ audit.Accounts, err error) {
	c, err := openOffline(ctx, s, log)
	if err != nil {
		return audit.Accounts{}, err
	}
	defer func() { err = errors.Join(err, c.life.stop(context.WithoutCancel(ctx))) }()
	if c.space, err = c.ledger.Identify(ctx, c.ledgerConfig()); err != nil {
		return audit.Accounts{}, err
	}
	evidence := audit.Evidence{Space: c.space, Snapshot: c.ledger.Snapshot, Links: c.linked}
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
		err = accounts.AddPostgresPool(ctx, c.ledgerDB, c.linked(ctx))
	}
	return accounts, err
}

// linked are the links of the store as an audit of keys reads them.
func (c *core) linked(ctx context.Context) iter.Seq2[audit.Linked, error] {
	return func(yield func(audit.Linked, error) bool) {
		for link, err := range c.store.All(ctx) {
			if !yield(audit.Linked{Code: link.Code, Source: link.Source}, err) {
				return
			}
		}
	}
}
