package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
)

// anchor is an idle connection that is open as long as its database. SQLite deletes the log when the last connection
// ends, and package database/sql may end a connection when the context of a statement ends. Without the anchor, an
// idle database could lose its log. The guard, which checks that the files of the database exist, would then report
// that the files were deleted.
type anchor struct {
	pool *sql.DB
	conn *sql.Conn
}

// openAnchor opens a connection and, on this connection, the log. SQLite keeps the log until this connection ends.
func openAnchor(ctx context.Context, files *guard) (*anchor, error) {
	pool, err := connect(files, url.Values{"_synchronous": {"FULL"}}, 1)
	if err != nil {
		return nil, err
	}
	conn, err := pool.Conn(ctx)
	if err == nil {
		err = openLog(ctx, conn)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("keep the log of the database %s: %w", files.path, err), pool.Close())
	}
	return &anchor{pool, conn}, nil
}

// close ends the connection. It moves the log into the database file if no other connection is open.
func (a *anchor) close() error { return errors.Join(a.conn.Close(), a.pool.Close()) }
