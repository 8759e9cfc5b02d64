package server

import (
	"context"
	"errors"
	"fmt"
	"io"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
	"keypool/shortener/reorder"
)

// reindexFlags are the flags of the command reindex.
type reindexFlags struct {
	ReplaceSecret bool `name:"replace-secret" help:"Replace the key ledger if KGS_SECRET or KGS_PERMUTE is not the permutation of the ledger. Use it if the secret is lost. Codes that were prepared under the old secret are not used any more."`
}

// reindex stores the links in the order of the present settings. If the process is killed, the same
// command continues.
func reindex(ctx context.Context, s config.Server, flags reindexFlags, out io.Writer) error {
	if err := s.Common.Complete(); err != nil {
		return err
	}
	log := app.NewLogger(out, s.LogLevel, s.LogFormat)
	return app.MigrateDatabase(ctx, s.Common, log, func(c *app.Core) error {
		err := c.Identify(ctx)
		if errors.Is(err, ledger.ErrWrongSecret) && flags.ReplaceSecret {
			err = c.ReplaceLedger(ctx)
		}
		if errors.Is(err, ledger.ErrWrongSecret) {
			return fmt.Errorf("%w; if the secret is lost, run `shortener reindex --replace-secret`", err)
		}
		if err != nil {
			return err
		}
		return onLinks(ctx, c, func(links reorder.Database) error { return reorderLinks(ctx, c, links, s.KeySource) })
	})
}

// reorderLinks moves the links into the order of the code space of c.
func reorderLinks(ctx context.Context, c *app.Core, links reorder.Database, keySource string) error {
	former, err := links.Recorded(ctx)
	if err != nil {
		return err
	}
	var own []string // sources of the links whose ledger was replaced
	if former != codespace.Plain().Fingerprint() && former != c.Space.Fingerprint() {
		own = []string{kgs.SourcePool, kgs.SourceLedger}
	}
	order := wantedOrder(c, keySource)
	if former != order.Fingerprint() {
		if err := c.CheckUnused(ctx); err != nil {
			return err
		}
	}
	if err := links.Begin(ctx, order.Fingerprint(), own...); err != nil {
		return err
	}
	return links.Move(ctx, order, logProgress(c.Log))
}
