package app

import (
	"context"

	"keypool/kgs"
)

// openPostgresPool: worker, tables in the database of the links, local batch. It has no breaker:
// while the keys are unreachable, so are the links.
func (ch *chain) openPostgresPool(context.Context) error {
	pool := kgs.NewPostgresPool(ch.books, kgs.PostgresPoolConfig{Holder: ch.holder, Reserve: ch.settings.KGSTake == "reserve"})
	draw := kgs.Random{Length: func() int { return ch.CodeLength }}
	build := func() *kgs.Worker { return ch.worker(kgs.NewPostgresShipper(pool, draw, ch.log)) }
	ch.watch = ch.watchPool(ch.fail, watched{look: pool.Status, build: ch.workerIfWanted(build)})
	ch.openLocal(pool)
	return nil
}
