package app

import (
	"context"

	"keypool/kgs/keysource"
	"keypool/kgs/pgpool"
	"keypool/kgs/refill"
)

// openPostgresPool: worker, tables beside the links, local batch. There is no breaker: where
// the keys are away, the links are too. KGS_BATCH_MIN=1000 is the textbook's buffer.
func (ch *chain) openPostgresPool(context.Context) error {
	pool := pgpool.New(ch.books, pgpool.Config{Holder: ch.holder, Reserve: ch.settings.KGSTake == "reserve"})
	draw := keysource.Random{Length: func() int { return ch.CodeLength }}
	build := func() *refill.Worker { return ch.worker(pgpool.NewFiller(pool, draw, ch.log)) }
	ch.watch = ch.watchPool(ch.fail, watched{look: observe(pool.Status), build: ch.workerIfWanted(build)})
	ch.openLocal(pool)
	return nil
}
