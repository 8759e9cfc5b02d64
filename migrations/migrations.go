// Package migrations holds the database schema, one folder of SQL files per
// engine, and brings a database up to it.
//
// Migrations only go forward. A way down would have to drop the ledger's rows or
// the links, which nothing could bring back: whoever wants an older schema
// restores a backup. For the same reason a program never runs on a schema newer
// than itself: it might ignore what keeps a code from being given out twice.
//
// A published file is never changed; a change of the schema is a new file in both
// folders, with the same version.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

var (
	// ErrNewerSchema says that the database was migrated by a newer program.
	ErrNewerSchema = errors.New("the database schema is newer than this program")
	// ErrOlderSchema says that the database has yet to be migrated for this program.
	ErrOlderSchema = errors.New("the database schema is older than this program")
)

// Engine is a kind of database.
type Engine string

// The engines that there is a schema for.
const (
	PostgreSQL Engine = "postgres"
	SQLite     Engine = "sqlite"
)

//go:embed postgres/*.sql sqlite/*.sql
var files embed.FS

// Up brings db to the schema of this program. Any number of processes may start
// at once: one does the work, the others wait as long as ctx allows and find it
// done. Each file is one transaction, so one that is killed leaves the database at
// the version before, for the next one to go on with. It fails with ErrNewerSchema
// when the database is ahead of the program. Up may hold two connections of db at
// once on PostgreSQL; on SQLite db must be one that can write.
func Up(ctx context.Context, db *sql.DB, engine Engine) (err error) {
	provider, err := newProvider(db, engine)
	if err != nil {
		return err
	}
	// Nothing to do is the rule, and needs neither the lock nor room on the disk.
	if err := check(ctx, db, engine, provider); !errors.Is(err, ErrOlderSchema) {
		return err
	}
	unlock, err := lock(ctx, db, engine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	// Again under the lock: another process may have migrated since, perhaps a newer one.
	if err := check(ctx, db, engine, provider); !errors.Is(err, ErrOlderSchema) {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	return nil
}

// Check fails with ErrOlderSchema or ErrNewerSchema unless db has exactly the
// schema of this program. It changes nothing and needs no right to.
func Check(ctx context.Context, db *sql.DB, engine Engine) error {
	provider, err := newProvider(db, engine)
	if err != nil {
		return err
	}
	return check(ctx, db, engine, provider)
}

func check(ctx context.Context, db *sql.DB, engine Engine, provider *goose.Provider) error {
	have, err := version(ctx, db, engine)
	if err != nil {
		return err
	}
	sources := provider.ListSources()
	want := sources[len(sources)-1].Version
	switch {
	case have > want:
		return fmt.Errorf("%w: the database has version %d, this program knows only up to %d: upgrade the program",
			ErrNewerSchema, have, want)
	case have < want:
		return fmt.Errorf("%w: the database has version %d, this program needs %d: run `shortener migrate`",
			ErrOlderSchema, have, want)
	}
	return nil
}

// version is the schema version of db, 0 where it was never migrated. The provider
// could tell too, but not without creating its table.
func version(ctx context.Context, db *sql.DB, engine Engine) (have int64, err error) {
	exists := `SELECT to_regclass('goose_db_version') IS NOT NULL`
	if engine == SQLite {
		exists = `SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = 'goose_db_version'`
	}
	var migrated bool
	if err := db.QueryRowContext(ctx, exists).Scan(&migrated); err != nil {
		return 0, fmt.Errorf("look up the schema version: %w", err)
	}
	if !migrated {
		return 0, nil
	}
	err = db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version`).Scan(&have)
	if err != nil {
		return 0, fmt.Errorf("look up the schema version: %w", err)
	}
	return have, nil
}

func newProvider(db *sql.DB, engine Engine) (*goose.Provider, error) {
	dialect := goose.DialectPostgres
	if engine == SQLite {
		dialect = goose.DialectSQLite3
	}
	folder, err := fs.Sub(files, string(engine))
	if err != nil {
		return nil, fmt.Errorf("migrations for %s: %w", engine, err)
	}
	provider, err := goose.NewProvider(dialect, db, folder,
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return nil, fmt.Errorf("migrations for %s: %w", engine, err)
	}
	return provider, nil
}
