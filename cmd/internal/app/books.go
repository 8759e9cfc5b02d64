package app

import (
	"context"

	"keypool/kgs/ledger"
)

// inBooks enters this process in the ledger's books, has open open what takes keys in its
// name, and keeps it entered: who takes keys and is not known there counts as dead. A stop
// ends the janitor first, for it would enter the name again, and takes the name out last.
func (c *core) inBooks(ctx context.Context, fail func(error), open func() error) error {
	if err := c.ledger.Renew(ctx, c.holder); err != nil {
		return err
	}
	c.life.onStop("ledger holder", func(ctx context.Context) error { return c.ledger.Release(ctx, c.holder) })
	if err := open(); err != nil {
		return err
	}
	j := &ledger.Janitor{Ledger: c.ledger, Holder: c.holder, Logger: c.log, Metrics: c.metrics}
	if c.pool != nil { // a nil pool in an interface would not be nil
		j.Pool = c.pool
	}
	c.life.background("janitor", fail, j.Run)
	return nil
}
