package app

import (
	"context"
	"keypool/kgs/ledger"
)

// asHolder registers this process as a holder in the ledger, calls open, which opens what takes keys
// in its name, and sends heartbeats: the ledger treats a holder without heartbeats as dead. The
// stop ends the janitor first, because it would register the holder again, and releases the holder
// last.
func (c *Core) asHolder(ctx context.Context, fail func(error), open func() error) error {
	if err := c.ledger.Renew(ctx, c.holder); err != nil {
		return err
	}
	c.life.onStop("ledger holder", func(ctx context.Context) error { return c.ledger.Release(ctx, c.holder) })
	if err := open(); err != nil {
		return err
	}
	j := &ledger.Janitor{Ledger: c.ledger, Holder: c.holder, Logger: c.Log, Metrics: c.metrics}
	if c.pool != nil { // an interface that holds a nil pointer is not nil
		j.Pool = c.pool
	}
	c.life.background("janitor", fail, j.Run)
	return nil
}
