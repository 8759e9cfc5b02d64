package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"modernc.org/sqlite"
)

// ErrMoved reports that the files of an open database were deleted, moved, replaced or overwritten. SQLite itself does
// not detect such a change, and would acknowledge commits that the next start does not find.
var ErrMoved = errors.New("the files of the database were deleted, moved, replaced or overwritten while it was open: " +
	"move them back; to use other files, stop the program, delete the old log and its index (-wal and -shm), and then move the other files to the path")

// guard detects that the files of an open database are no longer at the path of the database, or that the database file
// became smaller. It is safe for concurrent use.
type guard struct {
	path  string                        // without symbolic links
	name  string                        // the path that Open got, absolute; it may be a symbolic link to path
	files atomic.Pointer[[]os.FileInfo] // the files that the database has open, in the order of paths; nil while Open runs

	// Only VACUUM, or a program that overwrites the database file, makes this file smaller, because the database has no
	// auto_vacuum.
	size        atomic.Int64 // the largest size of the database file that a check found, in bytes
	overwritten atomic.Bool  // whether a check found a smaller size

	committed atomic.Bool // whether a connection has begun to commit a write
}

// paths returns the paths of the database file, its log and the index of the log. These files exist while a
// connection is open.
func (g *guard) paths() [3]string { return [...]string{g.path, g.path + "-wal", g.path + "-shm"} }

// remember records the present files. From then on, check compares the files at the paths with the recorded files.
func (g *guard) remember() error {
	var files []os.FileInfo
	for _, path := range g.paths() {
		file, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("open the database: %w", err)
		}
		files = append(files, file)
	}
	g.size.Store(files[0].Size())
	g.files.Store(&files)
	return nil
}

// check returns ErrMoved in these cases:
//
//   - The files at the paths are not the files of the database.
//   - The path that Open got no longer leads to the database file.
//   - This check or an earlier one found that the database file became smaller. The file becomes smaller if a program
//     copies a backup over it, or if VACUUM runs.
//
// The check takes a few microseconds.
func (g *guard) check() error {
	files := g.files.Load()
	if files == nil {
		return nil
	}
	// Read g.size before Stat. Otherwise a concurrent check could store a larger size after this Stat, and the file would
	// seem to have become smaller.
	least := g.size.Load()
	for i, path := range g.paths() {
		file, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("%w (%w)", ErrMoved, err)
		}
		if !os.SameFile(file, (*files)[i]) {
			return fmt.Errorf("%w (%s is another file)", ErrMoved, path)
		}
		if path == g.path {
			g.noteSize(least, file.Size())
		}
	}
	if g.name != g.path {
		if file, err := os.Stat(g.name); err != nil || !os.SameFile(file, (*files)[0]) {
			return fmt.Errorf("%w (%s no longer leads to %s)", ErrMoved, g.name, g.path)
		}
	}
	if g.overwritten.Load() {
		return fmt.Errorf("%w (%s became smaller: after VACUUM, start the program again; if another program overwrote the file, stop this program and restore a backup)", ErrMoved, g.path)
	}
	return nil
}

// intact reports whether check finds no fault.
func (g *guard) intact() bool { return g.check() == nil }

// noteSize takes the present size of the database file. The parameter least is the largest size that earlier checks
// found. If the file became smaller, noteSize sets g.overwritten. Otherwise noteSize raises g.size to the present
// size.
func (g *guard) noteSize(least, size int64) {
	if size < least {
		g.overwritten.Store(true)
	}
	for size > least && !g.size.CompareAndSwap(least, size) {
		least = g.size.Load()
	}
}

// connector opens connections that commit only while the check of the guard succeeds. If the check fails, connector
// opens no connection, and the connections that are already open roll back instead of committing.
type connector struct {
	driver.Connector

	guard *guard
}

// Connect implements [driver.Connector]. It checks the files before it connects. Without the check, it could connect
// to another file, and the end of that connection could delete the log of the other file.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := c.guard.check(); err != nil {
		return nil, err
	}
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	// SQLite rolls the transaction back if the hook does not return 0.
	conn.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 { //nolint:forcetypeassert // every connection of this driver is a HookRegisterer
		if c.guard.check() != nil {
			return 1
		}
		c.guard.committed.Store(true)
		return 0
	})
	return conn, nil
}
