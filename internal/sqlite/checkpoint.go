package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"
)

const (
	// checkpointLook is how often the checkpointer looks how long the log is.
	checkpointLook = 100 * time.Millisecond
	// walEnough is the number of pages in the log at which they are moved into the database
	// file. As the commits meanwhile wait for the same disk, more at a time made the
	// slowest of them slower: 4,000 three times, 16,000 ten times and more.
	walEnough = 1000
	// walRestart is the length of the log, in pages, at which it is made to begin anew:
	// 64 MiB, which a start after a crash reads in a tenth of a second.
	walRestart = 16000
	// walBound is the length at which a commit moves the log by itself, so that it has a
	// bound also when the checkpointer fails or is too slow.
	walBound = 2 * walRestart
	// closeTimeout bounds what a stop gives to a log that could not be moved before.
	closeTimeout = 5 * time.Second
)

// checkpointer moves the log into the database file beside the writer. Left to itself SQLite
// does so within the commit that makes the log a thousand pages long, and all who wait
// for that commit wait for the sync of the database file as well.
//
// A checkpoint that fails loses nothing, for the log keeps what was not moved, and is tried
// again at the next look.
type checkpointer struct {
	own    *sql.DB // beside the writer, so that commits go on meanwhile
	writer *sql.DB
	err    error // of the last look; for done
	stop   context.CancelFunc
	done   chan struct{}
}

func startCheckpointer(path string, writer *sql.DB) (*checkpointer, error) {
	own, err := connect(path, url.Values{"_synchronous": {"FULL"}}, 1)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &checkpointer{own: own, writer: writer, stop: cancel, done: make(chan struct{})}
	go c.run(ctx)
	return c, nil
}

func (c *checkpointer) run(ctx context.Context) {
	defer close(c.done)
	tick := time.NewTicker(checkpointLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := c.look(ctx); ctx.Err() == nil {
				c.err = err
			}
		}
	}
}

// look moves the log if there is enough to move. A log begins anew after a checkpoint that
// reached its end, which one beside a busy writer never does: when it is time, the writer's
// connection moves the rest, the little that came meanwhile, between two commits.
func (c *checkpointer) look(ctx context.Context) error {
	length, moved, err := checkpoint(ctx, c.own, "NOOP")
	if err != nil || length-moved < walEnough {
		return err
	}
	if length, _, err = checkpoint(ctx, c.own, "PASSIVE"); err != nil || length < walRestart {
		return err
	}
	_, _, err = checkpoint(ctx, c.writer, "PASSIVE")
	return err
}

// checkpoint does one of a mode of https://www.sqlite.org/pragma.html#pragma_wal_checkpoint
// and gives the length of the log and how much of it was ever moved, in pages.
func checkpoint(ctx context.Context, db *sql.DB, mode string) (length, moved int, err error) {
	var busy int // with somebody else's checkpoint, which is as good
	err = db.QueryRowContext(ctx, `PRAGMA wal_checkpoint(`+mode+`)`).Scan(&busy, &length, &moved)
	if err != nil {
		return 0, 0, fmt.Errorf("move the log into the database: %w", err)
	}
	return length, moved, nil
}

// close ends the checkpointer and breaks off a checkpoint under way. Where the last one
// failed it tries once more, for up to closeTimeout, and gives the error of that.
func (c *checkpointer) close() error {
	c.stop()
	<-c.done
	if c.err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_, _, c.err = checkpoint(ctx, c.own, "PASSIVE")
	}
	return errors.Join(c.err, c.own.Close())
}
