package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/cmd/internal/operate"
	"keypool/kgs/audit"
	"keypool/shortener"
)

// auditFlags are the flags of the command audit.
type auditFlags struct {
	JSON bool `name:"json" help:"Print the accounts as JSON."`
}

// runAudit audits all keys. Its exit status is 0 if the accounts close, 1 if they do not close,
// and 2 if the audit could not run.
func runAudit(ctx context.Context, c app.Console, s config.Server, audit auditFlags) int {
	accounts, err := closeAccounts(ctx, s, c.Errors)
	if err == nil {
		err = operate.PrintAccounts(c.Out, accounts, audit.JSON)
	}
	switch {
	case err != nil:
		c.Complain(fmt.Errorf("audit: %w", err))
		return 2
	case accounts.FaultTotal() > 0:
		return 1
	}
	return 0
}

func closeAccounts(ctx context.Context, s config.Server, log io.Writer) (accounts audit.Accounts, err error) {
	err = offline(ctx, s, log, func(ctx context.Context, c *app.Core, store shortener.Store, order shortener.Order) error {
		accounts, err = c.CloseAccounts(ctx, order, linked(store))
		return err
	})
	return accounts, err
}

// offline calls do with the store of the links, for a command that may run while servers run.
func offline(ctx context.Context, s config.Server, log io.Writer, do func(context.Context, *app.Core, shortener.Store, shortener.Order) error) (err error) {
	if err := s.CompleteOffline(app.KeySources()); err != nil {
		return err
	}
	c, err := app.OpenOffline(ctx, s.Common, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	return c.WhileAnswering(ctx, func(ctx context.Context) error {
		if err := c.Identify(ctx); err != nil {
			return err
		}
		connections, err := openConnections(ctx, c)
		if err != nil {
			return err
		}
		store, order, err := openStore(ctx, c, connections, s.KeySource, readOrder)
		if err != nil {
			return err
		}
		return do(ctx, c, store, order)
	})
}

// linked returns the links of the store in the form that an audit of keys reads.
func linked(store shortener.Store) func(context.Context) iter.Seq2[audit.Linked, error] {
	return func(ctx context.Context) iter.Seq2[audit.Linked, error] {
		return func(yield func(audit.Linked, error) bool) {
			for row, err := range store.All(ctx) {
				if !yield(audit.Linked(row), err) {
					return
				}
			}
		}
	}
}

// deleteFlags are the flags of the command delete.
type deleteFlags struct {
	Codes []string `arg:"" name:"code" help:"Codes of the links to delete."`
}

// deleteLinks turns links into tombstones. It returns after the time for which a server may still
// serve the links from its cache.
func deleteLinks(ctx context.Context, s config.Server, codes []string, out io.Writer) error {
	return offline(ctx, s, io.Discard, func(ctx context.Context, _ *app.Core, store shortener.Store, _ shortener.Order) error {
		err := operate.Delete(ctx, func(ctx context.Context, code string) error {
			return shortener.Delete(ctx, store, code, time.Now())
		}, codes, out)
		select {
		case <-time.After(shortener.Freshness):
		case <-ctx.Done():
		}
		return err
	})
}
