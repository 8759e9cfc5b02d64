package app

import (
	"context"

	"keypool/kgs"
)

// openPostgresPool: worker, tables beside the links, local batch. There is no breaker: where
// the keys are away, the links are too. KGS_BATCH_MIN=1000 is the textbook's buffer.
func (ch *chain) openPostgresPool(context.Context) error {
	pool := kgs.NewPostgresPool(ch.books, kgs.PostgresPoolConfig{Holder: ch.holder, Reserve: ch.settings.KGSTake == "reserve"})
	draw := kgs.Random{Length: func() int { return ch.CodeLength }}
	build := func() *kgs.Worker { return ch.worker(kgs.NewPostgresShipper(pool, draw, ch.log)) }
	ch.watch = ch.watchPool(ch.fail, watched{look: observe(pool.Status), build: ch.workerIfWanted(build)})
	ch.openLocal(pool)
	return nil
}
