package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/url"
	"time"

	"golang.org/x/sys/unix"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// checkpointLook is the interval at which the checkpointer checks the length of the log.
	checkpointLook = 100 * time.Millisecond
	// walEnough is a number of pages. When the log has this many pages that are not in the database file
	// yet, the checkpointer moves these pages into the file. If the disk is nearly full, it does so with
	// fewer pages (see walPart). Commits wait for the same disk during a checkpoint, so checkpoints must
	// be short. In measurements, the slowest commits were 3 times slower with 4,000 pages than with 1,000
	// pages, and at least 10 times slower with 16,000 pages.
	walEnough = 1000
	// walRestart is the length of the log, in pages, at which the checkpointer restarts the log: SQLite
	// then writes from the beginning of the log file again. The length is 62.5 MiB. A start after a crash
	// reads a log of this length in 0.1 s.
	walRestart = 16000
	// walPart limits the log on a small disk. The checkpointer restarts the log when the length of the log reaches
	// 1/walPart of the sum of this length and the free space. Without this limit, the log could fill the disk. The
	// database file could then not grow, so SQLite could not move pages into it, and the disk would stay full.
	walPart = 4
	// walLeast is the smallest length of the log, in pages, at which the checkpointer restarts it.
	walLeast = 64
	// pageSize is the size of a page in bytes, which is the default of SQLite.
	pageSize = 4096
	// walBound is the length of the log, in pages, at which a commit runs a checkpoint itself. These
	// checkpoints limit the log if the checkpointer fails or is too slow.
	walBound = 2 * walRestart
	// closeTimeout limits the last checkpoint during close.
	closeTimeout = 5 * time.Second
)

// checkpointer moves the pages of the write-ahead log into the database file, on a separate connection.
// By default, SQLite does this within the commit that makes the log 1,000 pages long. All callers that
// wait for this commit then also wait for the sync of the database file.
//
// A failed checkpoint loses nothing, because the log keeps the pages that were not moved. The
// checkpointer tries again after checkpointLook. Before this DB begins its first commit, the checkpointer runs no
// checkpoint: a program that only reads must not fail because the disk is full.
type checkpointer struct {
	files  *guard
	own    *sql.DB // separate from writer, so that commits continue during a checkpoint
	writer *sql.DB
	free   func() (pages int, err error) // the free space of the disk
	err    error                         // error of the last call of checkLog; read after done is closed
	stop   context.CancelFunc
	done   chan struct{}
}

func startCheckpointer(files *guard, writer *sql.DB) (*checkpointer, error) {
	own, err := connect(files, url.Values{"_synchronous": {"FULL"}}, 1)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &checkpointer{
		files: files, own: own, writer: writer, free: func() (int, error) { return freePages(files.path) },
		stop: cancel, done: make(chan struct{}),
	}
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
			if err := c.checkLog(ctx); ctx.Err() == nil {
				c.err = err
			}
		}
	}
}

// checkLog runs a checkpoint if this DB has begun a commit, the check of its files succeeds, and the log is long
// enough. Without the check of the files, a checkpoint could make an overwritten file large again, and no later check
// would notice that the file was overwritten. SQLite restarts the log after a checkpoint that has reached the end of
// the log. A checkpoint does not reach the end if a commit appends pages meanwhile. Therefore, if the log is so long
// that it must be restarted, checkLog runs a second checkpoint on the writer's connection, between two commits. The
// second checkpoint moves the few pages that were written since the first checkpoint began.
func (c *checkpointer) checkLog(ctx context.Context) error {
	if !c.files.committed.Load() || !c.files.intact() {
		return nil
	}
	length, moved, err := checkpoint(ctx, c.own, "NOOP")
	if err != nil || length-moved < walLeast/2 {
		return err
	}
	free, err := c.free()
	if err != nil {
		return err
	}
	restart := max(walLeast, min(walRestart, (free+length)/walPart))
	if length-moved < min(walEnough, restart/2) {
		return nil
	}
	if length, _, err = checkpoint(ctx, c.own, "PASSIVE"); err != nil || length < restart {
		return err
	}
	_, _, err = checkpoint(ctx, c.writer, "PASSIVE")
	return err
}

// freePages returns how many pages fit into the free space of the disk that has the given file.
func freePages(path string) (int, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(path, &disk); err != nil {
		return 0, fmt.Errorf("read the free space of the disk of %s: %w", path, err)
	}
	return int(min(disk.Bavail, math.MaxInt32) * uint64(disk.Bsize) / pageSize), nil
}

// checkpoint runs one checkpoint in one of the modes that
// https://www.sqlite.org/pragma.html#pragma_wal_checkpoint describes. It returns the length of the
// log, and how much of the log this checkpoint and earlier ones have moved, both in pages.
func checkpoint(ctx context.Context, db *sql.DB, mode string) (length, moved int, err error) {
	var busy int // ignored; not 0 if another connection is running a checkpoint, which serves the same purpose
	err = db.QueryRowContext(ctx, `PRAGMA wal_checkpoint(`+mode+`)`).Scan(&busy, &length, &moved)
	if err != nil {
		return 0, 0, fmt.Errorf("move the log into the database: %w", err)
	}
	return length, moved, nil
}

const (
	truncateTimeout = 10 * time.Second       // time limit of TruncateLog
	truncateWait    = 50 * time.Millisecond  // time that one attempt of TruncateLog waits for other transactions
	truncatePause   = 100 * time.Millisecond // shortest time between the beginnings of two attempts
)

// ErrLogInUse reports that other connections prevented the truncation of the log.
var ErrLogInUse = errors.New("the log of the database is in use")

// TruncateLog moves the log into the database file and makes the log empty, so that no former content of the database
// remains in the log. It waits until no transaction reads from the log and no other checkpoint runs. After 10 s, or when
// ctx ends, it stops waiting and fails with ErrLogInUse. Other processes can write meanwhile, but a write may wait for
// 50 ms. TruncateLog occupies the connection of db.Write, so other uses of db.Write wait until TruncateLog returns. If
// db.Write itself does not become free within the time limit, the error is the error of the context.
func (db *DB) TruncateLog(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, truncateTimeout)
	defer cancel()
	conn, err := db.Write.Conn(ctx)
	if err != nil {
		return fmt.Errorf("truncate the log: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	// A checkpoint with TRUNCATE holds the write lock while it waits for transactions that read.
	if err := setBusyTimeout(ctx, conn, truncateWait); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, setBusyTimeout(context.WithoutCancel(ctx), conn, busyTimeout)) }()
	tick := time.NewTicker(truncatePause)
	defer tick.Stop()
	for {
		var busy, length, moved int
		err := conn.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &length, &moved)
		if err == nil && busy == 0 {
			return nil
		}
		if err != nil && ctx.Err() == nil && !hasCode(err, sqlite3.SQLITE_BUSY) {
			return fmt.Errorf("truncate the log: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ErrLogInUse, err)
		}
	}
}

func setBusyTimeout(ctx context.Context, conn *sql.Conn, d time.Duration) error {
	if _, err := conn.ExecContext(ctx, fmt.Sprintf(`PRAGMA busy_timeout = %d`, d.Milliseconds())); err != nil {
		return fmt.Errorf("set the busy timeout: %w", err)
	}
	return nil
}

// close stops the checkpointer and cancels a running checkpoint. If the last call of checkLog failed, close
// runs one more checkpoint, for up to closeTimeout, and returns the error of this checkpoint.
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
