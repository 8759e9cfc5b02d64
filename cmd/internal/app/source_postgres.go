package app

import (
	"context"

	"keypool/kgs/keysource"
	"keypool/kgs/pgpool"
	"keypool/kgs/refill"
)

// openPostgresPool: worker, tables in the database of the links, local batch. It has no breaker:
// while the keys are unreachable, so are the links.
func (ch *Chain) openPostgresPool(context.Context) error {
	pool := pgpool.New(ch.ledgerDB, pgpool.Config{Holder: ch.holder, Reserve: ch.settings.KGSTake == "reserve"})
	draw := keysource.Random{Length: func() int { return ch.CodeLength }}
	build := func() *refill.Worker { return ch.worker(pgpool.NewFiller(pool, draw, ch.Log)) }
	ch.watch = ch.watchPool(ch.fail, watched{look: observe(pool.Status), build: ch.workerIfWanted(build)})
	ch.openLocal(pool)
	return nil
}
