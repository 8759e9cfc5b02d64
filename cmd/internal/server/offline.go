package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/cmd/internal/operate"
	"keypool/internal/upkeep"
	"keypool/kgs"
	"keypool/kgs/audit"
	"keypool/shortener"
	"keypool/shortener/service"
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
	err = offline(ctx, s, log, func(ctx context.Context, o opened) error {
		accounts, err = o.core.Audit(ctx, o.order, linked(o.store))
		return err
	})
	return accounts, err
}

// offline opens the database and calls do, for a command that may run while servers run.
func offline(ctx context.Context, s config.Server, log io.Writer, do func(context.Context, opened) error) (err error) {
	return withDatabase(ctx, s, log, (*app.Core).Identify, readOrder, do)
}

// opened is an open database with links. The store uses the connections. The stores of tokens and of visits may use them too.
type opened struct {
	core        *app.Core
	connections *pgxpool.Pool // nil for SQLite
	store       linkStore
	order       shortener.Order
}

// withDatabase opens the database and calls do. It calls openLedger to open the code space, and then getOrder to get the
// order of the links.
func withDatabase(
	ctx context.Context, s config.Server, log io.Writer, openLedger func(*app.Core, context.Context) error, getOrder orderOf,
	do func(context.Context, opened) error,
) error {
	return withCore(ctx, s, log, func(c *app.Core) error {
		return c.WhileAnswering(ctx, func(ctx context.Context) (err error) {
			if err := openLedger(c, ctx); err != nil {
				return err
			}
			o := opened{core: c}
			if o.connections, err = openConnections(ctx, c); err != nil {
				return err
			}
			if o.store, o.order, err = openStore(ctx, c, o.connections, s.KeySource, getOrder); err != nil {
				return err
			}
			return do(ctx, o)
		})
	})
}

// withCore opens the database and calls do. It opens neither the code space nor the store of the links.
func withCore(ctx context.Context, s config.Server, log io.Writer, do func(*app.Core) error) (err error) {
	if err := s.CompleteOffline(app.KeySources()); err != nil {
		return err
	}
	c, err := app.OpenOffline(ctx, s.Common, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	return do(c)
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

// recordRestore records that the database was restored from a backup.
func recordRestore(ctx context.Context, s config.Server, out io.Writer) error {
	err := withCore(ctx, s, io.Discard, func(c *app.Core) error { return c.WhileAnswering(ctx, c.Restored) })
	if err != nil {
		return err
	}
	message := "recorded in the ledger; the next start of a program skips the numbers that may have been issued after the backup"
	if s.KeySource == kgs.SourceRedisIncr || s.KeySource == kgs.SourceTicket {
		message = "recorded in the ledger; the counters of the key source " + s.KeySource + " do not change: docs/operations.md describes how to move them"
	}
	_, err = fmt.Fprintln(out, message)
	return err
}

// deleteFlags are the flags of the command delete.
type deleteFlags struct {
	Codes []string `arg:"" name:"code" help:"Codes of the links to delete. Put -- before a code that begins with a hyphen."`
	Erase bool     `name:"erase" help:"Also erase the content of the links for good, even if they were deleted before: the URL, the title, the tags and all other values that a person chose except the code, and the referrers, countries and devices of the visits. The codes and the numbers of visits stay."`
}

// deleteLinks turns links into tombstones. With --erase, it also erases the content of the links and the details of
// their visits. If a server counts visits of an erased link later, the store does not add their details. After the
// deletions, deleteLinks waits for service.Freshness, because a server may redirect to the links from its cache for this
// time.
func deleteLinks(ctx context.Context, s config.Server, f deleteFlags, out io.Writer) error {
	return offline(ctx, s, io.Discard, func(ctx context.Context, o opened) error {
		remove := service.Delete
		if f.Erase {
			remove = service.Erase
		}
		if f.Erase && o.core.SQLite != nil {
			if err := o.core.SQLite.OverwriteFreedPages(ctx); err != nil {
				return err
			}
		}
		deleted, err := operate.Delete(ctx, func(ctx context.Context, code string) error {
			return remove(ctx, o.store, code, time.Now())
		}, f.Codes, out)
		if f.Erase {
			err = errors.Join(err, eraseRest(ctx, o, deleted, out))
		}
		if len(deleted) == 0 {
			return err
		}
		if failed := upkeep.Pause(ctx, service.Freshness); failed != nil {
			err = errors.Join(err, fmt.Errorf("servers may still redirect to the deleted links: %w", failed))
		}
		return err
	})
}

// eraseRest erases the details of the visits of erased links. In SQLite, it also erases what the log still contains.
func eraseRest(ctx context.Context, o opened, codes []string, out io.Writer) error {
	err := operate.Erase(ctx, visitStore(o.core, o.connections).EraseFacets, codes, out)
	if o.core.SQLite == nil {
		return err
	}
	if failed := o.core.SQLite.TruncateLog(ctx); failed != nil {
		err = errors.Join(err, fmt.Errorf("the log of the database may still contain erased data, so run the command again: %w", failed))
	}
	return err
}
