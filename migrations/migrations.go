// Package migrations contains the database schema, one folder of SQL files per engine, and migrates
// a database to this schema.
//
// Invariants:
//
//   - Migrations only go forward. A migration to an older schema would drop rows of the ledger or of
//     the links, and nothing could recover these rows. To return to an older schema, restore a backup.
//   - A program never runs on a schema that is newer than the program. The program would not know the
//     rules of the newer schema, so it could issue a code twice.
//   - A change of the schema adds a file with the same version to both folders. The statements of a
//     published file stay as they are, because databases have applied them. There is one exception,
//     which protects running servers: version 9 for PostgreSQL no longer creates indexes on the tables
//     of links. Version 11 creates these indexes if they do not exist. So all databases get the same
//     schema.
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
	// ErrNewerSchema means that a newer program migrated the database.
	ErrNewerSchema = errors.New("the database schema is newer than this program")
	// ErrOlderSchema means that the database must be migrated for this program.
	ErrOlderSchema = errors.New("the database schema is older than this program")

	errTooSlow = errors.New("the migration takes longer than the start of a program may take: run `shortener migrate`, which has no time limit")
)

// Engine is a kind of database.
type Engine string

// These are the engines that have a schema.
const (
	PostgreSQL Engine = "postgres"
	SQLite     Engine = "sqlite"
)

//go:embed postgres/*.sql sqlite/*.sql
var files embed.FS

// Up migrates db to the schema of this program. It fails with ErrNewerSchema if the schema is newer than the program,
// with ErrForeign if the database belongs to another program, and with ErrCitusWorker if the database is on a worker of
// a Citus cluster. After such an error, the tables have not changed.
//
// Any number of processes may call Up at the same time. One process migrates, and the other processes wait until the
// migration is complete or their ctx ends. Each file is one transaction, or a sequence of statements that can be
// repeated. If a process is killed during a file, the database stays at the previous version, and the next call of Up
// continues with this file. On PostgreSQL, servers can use the database while Up runs, and Up may use two connections
// of db at the same time. Up fails if other transactions prevent a change for about 20 s. On SQLite, db must be able to
// write, and other connections cannot write while Up runs.
func Up(ctx context.Context, db *sql.DB, engine Engine) error {
	provider, err := newProvider(db, engine)
	if err != nil {
		return err
	}
	// Usually the schema is up to date. This check needs neither the lock nor free disk space.
	if err := check(ctx, db, engine, provider); !errors.Is(err, ErrOlderSchema) {
		return err
	}
	return Exclusive(ctx, db, engine, func() error {
		// Check again under the lock. Another process may have migrated the database in the
		// meantime, perhaps to a newer schema.
		if err := check(ctx, db, engine, provider); !errors.Is(err, ErrOlderSchema) {
			return err
		}
		if err := refuseForeign(ctx, db, engine); err != nil {
			return err
		}
		err := apply(ctx, db, engine, provider)
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", errTooSlow, err)
		}
		if err != nil {
			return fmt.Errorf("migrate the database: %w", err)
		}
		return nil
	})
}

// apply applies the files that are missing.
func apply(ctx context.Context, db *sql.DB, engine Engine, provider *goose.Provider) error {
	return whenUnlocked(ctx, func() (err error) {
		if engine == PostgreSQL {
			err = dropInvalid(ctx, db)
		}
		if err == nil {
			_, err = provider.Up(ctx)
		}
		return err
	})
}

// Exclusive calls f while no other process migrates the database or calls Exclusive. Exclusive
// first waits for such a process, at most until ctx ends. f must not call Up or Exclusive. On
// PostgreSQL, Exclusive uses one connection of db while f runs.
func Exclusive(ctx context.Context, db *sql.DB, engine Engine, f func() error) (err error) {
	unlock, err := lock(ctx, db, engine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return f()
}

// Check returns nil if db has exactly the schema of this program. Otherwise it fails with
// ErrOlderSchema, ErrNewerSchema, ErrForeign or ErrCitusWorker. It changes nothing and needs no write permission.
func Check(ctx context.Context, db *sql.DB, engine Engine) error {
	provider, err := newProvider(db, engine)
	if err != nil {
		return err
	}
	return check(ctx, db, engine, provider)
}

func check(ctx context.Context, db *sql.DB, engine Engine, provider *goose.Provider) error {
	if engine == PostgreSQL {
		if err := checkNotWorker(ctx, db); err != nil {
			return err
		}
	}
	have, err := Version(ctx, db, engine)
	if err != nil {
		return err
	}
	sources := provider.ListSources()
	want := sources[len(sources)-1].Version
	switch {
	case have > want:
		return fmt.Errorf("%w: the database has version %d, this program supports versions up to %d: upgrade the program",
			ErrNewerSchema, have, want)
	case have < want:
		return fmt.Errorf("%w: the database has version %d, this program needs %d: run `shortener migrate`",
			ErrOlderSchema, have, want)
	}
	return nil
}

// Version returns the schema version of db, or 0 if db was never migrated. It fails with ErrForeign if another program,
// which uses goose too, wrote the version. It changes nothing.
func Version(ctx context.Context, db *sql.DB, engine Engine) (have int64, err error) {
	// The provider of goose would create the table goose_db_version. Therefore Version reads this table
	// without the provider, if the table exists.
	migrated, err := hasTable(ctx, db, engine, "goose_db_version")
	if err == nil && migrated {
		err = db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version`).Scan(&have)
	}
	own := true
	if err == nil && have > 0 {
		own, err = hasTable(ctx, db, engine, "kgs_ledger") // the transaction of version 1 creates this table
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("look up the schema version: %w", err)
	case !own:
		return 0, fmt.Errorf("%w: its table goose_db_version has version %d, but there is no table kgs_ledger", ErrForeign, have)
	}
	return have, nil
}

func hasTable(ctx context.Context, db *sql.DB, engine Engine, name string) (has bool, err error) {
	query := `SELECT to_regclass($1) IS NOT NULL`
	if engine == SQLite {
		query = `SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = $1`
	}
	err = db.QueryRowContext(ctx, query, name).Scan(&has)
	return has, err
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
