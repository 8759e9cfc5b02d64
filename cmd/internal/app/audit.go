package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"keypool/kgs/audit"
)

// AuditFlags are those of the command audit.
type AuditFlags struct {
	JSON bool `name:"json" help:"Print the accounts as JSON."`
}

// runAudit closes the accounts: exit status 0 they close, 1 they do not, 2 it could
// not be done.
func runAudit(ctx context.Context, c console, flags Flags, audit AuditFlags) int {
	accounts, err := closeAccounts(ctx, flags, c.errors)
	if err != nil {
		c.complain(fmt.Errorf("audit: %w", err))
		return 2
	}
	if err := printAccounts(c.out, accounts, audit.JSON); err != nil {
		c.complain(fmt.Errorf("audit: %w", err))
		return 2
	}
	if len(accounts.Faults) > 0 {
		return 1
	}
	return 0
}

func closeAccounts(ctx context.Context, flags Flags, log io.Writer) (_ audit.Accounts, err error) {
	c, err := openOffline(ctx, flags, log)
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
		err = fmt.Errorf("%w; REDIS_URL says where", err)
	}
	if err == nil && c.books != nil {
		err = accounts.AddPostgresPool(ctx, c.books, c.linked(ctx))
	}
	return accounts, err
}

// linked is the link store as the audit of keys sees it.
func (c *core) linked(ctx context.Context) iter.Seq2[audit.Linked, error] {
	return func(yield func(audit.Linked, error) bool) {
		for link, err := range c.store.All(ctx) {
			if !yield(audit.Linked{Code: link.Code, Source: link.Source}, err) {
				return
			}
		}
	}
}
