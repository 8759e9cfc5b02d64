package app

import (
	"context"
	"errors"
	"log/slog"

	"keypool/kgs/ledger"
)

// asHolder registers this process as a holder in the ledger. Then it calls open, which opens the
// parts that take keys for this holder. Then it starts the janitor, which sends heartbeats and
// abandons the keys of dead holders. The ledger treats a holder without heartbeats as dead. The stop
// ends the janitor before it releases the holder, because the janitor would register the holder
// again.
func (c *Core) asHolder(ctx context.Context, fail func(error), open func() error) error {
	c.announce(ctx)
	if err := c.ledger.Renew(ctx, c.holder); err != nil {
		return err
	}
	c.held = true
	c.life.OnStop("ledger holder", c.releaseHolder)
	if err := open(); err != nil {
		return err
	}
	j := &ledger.Janitor{Ledger: c.ledger, Holder: c.holder, Logger: c.Log, Metrics: c.metrics}
	if c.pool != nil { // an interface that holds a nil pointer is not nil
		j.Pool = c.pool
	}
	c.life.Background("janitor", fail, j.Run)
	return nil
}

// Hold registers this process as a holder in the ledger until the stop, for a command that inserts links. While a holder is
// registered, the command reindex refuses to change the order of the links. If the janitor fails, it passes the error to the
// function fail. A heartbeat that cannot be sent is only logged.
func (c *Core) Hold(ctx context.Context, fail func(error)) error {
	return c.asHolder(ctx, fail, func() error { return nil })
}

// announce declares holders dead if their processes used the same SQLite file and have ended. This process can then
// take over the ranges of these holders at once. announce also creates the locked file that shows that this process is
// alive. If this process is killed, the next process declares it dead in the same way. Without announce, a server that
// is killed every few seconds would reserve a whole pool at each start. If announce fails, another process takes over
// the ranges later, when the heartbeats of their holders have been missing for half a minute. With PostgreSQL, announce
// does nothing.
func (c *Core) announce(ctx context.Context) {
	if c.SQLite == nil {
		return
	}
	dead, err := c.ledger.Bury(ctx, c.SQLite.Path())
	if dead > 0 {
		c.Log.Info("other processes can now take over the ranges of killed processes", slog.Int("processes", dead))
	}
	presence, announceErr := ledger.Announce(c.SQLite.Path(), c.holder)
	if announceErr == nil {
		c.life.OnStop("presence", func(context.Context) error {
			c.withdraw(presence)
			return nil
		})
	}
	if err := errors.Join(err, announceErr); err != nil {
		c.Log.Warn("cannot use the lock files of the SQLite database", slog.Any("error", err))
	}
}

// withdraw removes the lock file of this process. If the holder could not be released, for example because the disk is full, the
// file stays, and the next process takes over the ranges of this process. If the holder was released but the file cannot be
// removed, for example because its folder became read-only, withdraw only logs a warning: no range depends on the file.
func (c *Core) withdraw(presence *ledger.Presence) {
	if c.held {
		return // the end of the process ends the lock
	}
	if err := presence.Close(); err != nil {
		c.Log.Warn("could not remove the lock file of this process; the next start removes it", slog.Any("error", err))
	}
}

// releaseHolder removes this process from the holders of the ledger. After an outage of the database, the first call may
// get a connection that the database has closed. Therefore releaseHolder tries again on a new connection.
func (c *Core) releaseHolder(ctx context.Context) error {
	err := c.ledger.Release(ctx, c.holder)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ledger.ErrReplaced) {
		c.renewConnections()
		err = c.ledger.Release(ctx, c.holder)
	}
	if errors.Is(err, ledger.ErrReplaced) { // the new ledger does not have this holder
		err = nil
	}
	c.held = err != nil
	return err
}
