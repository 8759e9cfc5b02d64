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
func runAudit(ctx context.Context, c app.Console, s config.Common, audit auditFlags) int {
	accounts, err := closeAccounts(ctx, s, c.Errors)
	if err == nil {
		err = operate.PrintAccounts(c.Out, accounts, audit.JSON)
	}
	switch {
	case err != nil:
		c.Complain(fmt.Errorf("audit: %w", err))
		return 2
	case len(accounts.Faults) > 0:
		return 1
	}
	return 0
}

func closeAccounts(ctx context.Context, s config.Common, log io.Writer) (_ audit.Accounts, err error) {
	c, err := app.OpenOffline(ctx, s, log)
	if err != nil {
		return audit.Accounts{}, err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	store, err := openStore(ctx, c)
	if err != nil {
		return audit.Accounts{}, err
	}
	return c.CloseAccounts(ctx, linked(store))
}

// linked returns the links of the store in the form that an audit of keys reads.
func linked(store shortener.Store) func(context.Context) iter.Seq2[audit.Linked, error] {
	return func(ctx context.Context) iter.Seq2[audit.Linked, error] {
		return func(yield func(audit.Linked, error) bool) {
			for link, err := range store.All(ctx) {
				if !yield(audit.Linked{Code: link.Code, Source: link.Source}, err) {
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
func deleteLinks(ctx context.Context, s config.Common, codes []string, out io.Writer) (err error) {
	c, err := app.OpenOffline(ctx, s, io.Discard)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	store, err := openStore(ctx, c)
	if err != nil {
		return err
	}
	err = operate.Delete(ctx, store, codes, out)
	select {
	case <-time.After(shortener.Freshness):
	case <-ctx.Done():
	}
	return err
}
