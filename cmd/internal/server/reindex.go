package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/kgs"
	"keypool/kgs/ledger"
	"keypool/shortener/reorder"
)

// reindexFlags are the flags of the command reindex.
type reindexFlags struct {
	ReplaceSecret bool `name:"replace-secret" help:"Replace the key ledger if KGS_SECRET and KGS_PERMUTE give another permutation than the ledger has. Use this flag if the secret is lost. Keys that were prepared with the old secret are not used any more."`
	ForgetLeases  bool `name:"forget-leases" help:"With --replace-secret, replace the ledger even if clients of the key service have leased keys. The new ledger may lease the same keys again."`
}

// reindex moves the links into the order that the present settings determine. If the process is killed, a repetition of
// the command continues the move.
func reindex(ctx context.Context, s config.Server, flags reindexFlags, out io.Writer) error {
	if flags.ForgetLeases && !flags.ReplaceSecret {
		return &config.Error{Name: "--forget-leases", Got: "true", Takes: "true only with --replace-secret"}
	}
	if err := s.CompleteOffline(app.KeySources()); err != nil {
		return err
	}
	if err := app.CheckExists(s.Database); err != nil {
		return err
	}
	log := app.NewLogger(out, s.LogLevel, s.LogFormat)
	err := app.MigrateDatabase(ctx, s.Common, flags.ReplaceSecret, log, func(c *app.Core) error {
		err := c.Identify(ctx)
		if flags.ReplaceSecret {
			err = replaceLedger(ctx, c, flags.ForgetLeases, err)
		}
		if err != nil {
			return err
		}
		return withLinks(ctx, c, func(links reorder.Database) error { return reorderLinks(ctx, c, links, s.KeySource) })
	})
	switch {
	case errors.Is(err, ledger.ErrLeased):
		return fmt.Errorf("%w; to replace it nevertheless, add --forget-leases", err)
	case errors.Is(err, ledger.ErrWrongSecret):
		return fmt.Errorf("%w; if the secret is lost, run `shortener reindex --replace-secret`", err)
	case err != nil:
		return err
	}
	log.Info("the links are in the order of the codes", slog.String("key_source", s.KeySource))
	return nil
}

// replaceLedger replaces the ledger if err, the result of Identify, shows that the ledger belongs to
// another permutation. If there is no ledger, replaceLedger creates one.
func replaceLedger(ctx context.Context, c *app.Core, forgetLeases bool, err error) error {
	switch {
	case errors.Is(err, ledger.ErrNotInitialized):
		return c.OpenLedger(ctx)
	case errors.Is(err, ledger.ErrWrongSecret):
		return withLinks(ctx, c, func(links reorder.Database) error {
			return c.ReplaceLedger(ctx, forgetLeases, func(ctx context.Context, tx *sql.Tx) error {
				return links.Disown(ctx, tx, kgs.SourcePool, kgs.SourceLedger)
			})
		})
	}
	return err
}

// reorderLinks moves the links into the order of the codes of the key source.
func reorderLinks(ctx context.Context, c *app.Core, links reorder.Database, keySource string) error {
	order := wantedOrder(c, keySource)
	former, err := links.Recorded(ctx)
	if err != nil && !errors.Is(err, reorder.ErrUnrecorded) {
		return err
	}
	if former != order.Fingerprint() {
		unused, err := c.CheckUnused(ctx)
		if err != nil {
			return err
		}
		if err := links.Begin(ctx, order.Fingerprint(), unused.Lock); err != nil {
			return err
		}
	}
	return links.Move(ctx, order, logProgress(c.Log))
}
