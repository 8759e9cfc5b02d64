package app

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/internal/sqlite"
	"keypool/kgs/ledger"
	"keypool/migrations"
)

func (c *Core) openDatabase(ctx context.Context) error {
	if c.Database.Postgres == nil {
		return c.openSQLite(ctx)
	}
	return c.openPostgres(ctx)
}

func (c *Core) openSQLite(ctx context.Context) error {
	db, err := openFile(ctx, "DATABASE_URL", c.Database.SQLitePath)
	if err != nil {
		return err
	}
	c.life.OnStop("database", func(ctx context.Context) error { return program.WaitFor(ctx, db.Close) })
	if err := c.migrate(ctx, db.Write, migrations.SQLite); err != nil {
		return RefuseDatabase("DATABASE_URL", err)
	}
	c.ledger, c.SQLite = ledger.NewSQLite(db), db
	c.ledger.KeepWitness(db.Path(), c.Log, c.metrics.CountWitnessFailure)
	return nil
}

// openFile opens the SQLite database that a setting names.
func openFile(ctx context.Context, setting, path string) (*sqlite.DB, error) {
	db, err := sqlite.Open(ctx, path)
	switch {
	case errors.Is(err, sqlite.ErrSeveralNames):
		err = &config.Error{
			Name: setting, Got: err.Error(),
			Takes: "a file that has only one name, because SQLite derives the name of its log from it: if the file has other hard links, remove them or copy the file; if the file itself is mounted, mount its folder instead",
		}
	case errors.Is(err, sqlite.ErrNoFile):
		err = &config.Error{
			Name: setting, Got: err.Error(),
			Takes: "the path of an existing file, or of a new file without a log: move the missing file back, because the log may have its newest links, or delete the log and its index (-wal and -shm) to begin with an empty database",
		}
	case errors.Is(err, sqlite.ErrNotDatabase):
		err = &config.Error{Name: setting, Got: "sqlite:" + path, Takes: "the path of a SQLite database, or of a file that does not exist yet; a symbolic link must lead to an existing file"}
	}
	return db, err
}

func (c *Core) openPostgres(ctx context.Context) error {
	ledgerDB, err := c.OpenPool(ctx, c.Database.LedgerPool())
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(ledgerDB)
	if err = requireSuitable(ctx, db); err == nil {
		err = RefuseDatabase("DATABASE_URL", c.migrate(ctx, db, migrations.PostgreSQL))
	}
	if err := errors.Join(nameUnreachable(err), db.Close()); err != nil {
		return nameReadOnly(err)
	}
	c.ledger, c.ledgerDB = ledger.NewPostgres(ledgerDB), ledgerDB
	return nil
}

// migrate brings the schema up to date. With MIGRATE=false, it only checks the schema. If the ledger was created with
// another secret and anySecret is false, migrate changes nothing, because a migration could make the schema too new for the
// program that created the ledger.
func (c *Core) migrate(ctx context.Context, db *sql.DB, engine migrations.Engine) error {
	if !c.Migrate.On {
		return migrations.Check(ctx, db, engine)
	}
	version, err := migrations.Version(ctx, db, engine)
	if err == nil && version > 0 && !c.anySecret {
		err = ledger.CheckSecret(ctx, db, c.ledgerConfig())
	}
	if err != nil {
		return err
	}
	return migrations.Up(ctx, db, engine)
}

// requireSuitable fails if the database of links cannot store every Unicode text, or if its search path has no schema for
// the tables. The encoding SQL_ASCII is suitable, because PostgreSQL stores a text in it without a conversion.
func requireSuitable(ctx context.Context, db *sql.DB) error {
	var encoding string
	var schema sql.NullString
	if err := db.QueryRowContext(ctx, `SELECT current_setting('server_encoding'), current_schema()`).Scan(&encoding, &schema); err != nil {
		return fmt.Errorf("read the encoding and the schema of the database: %w", err)
	}
	if !schema.Valid {
		return &config.Error{
			Name: "DATABASE_URL", Got: "a search path without an existing schema",
			Takes: "a search_path whose first schema exists, and a user with the right USAGE on it",
		}
	}
	if encoding != "UTF8" && encoding != "SQL_ASCII" {
		return &config.Error{
			Name: "DATABASE_URL", Got: "a database with the encoding " + encoding,
			Takes: "a database with the encoding UTF8; docs/operations.md (Upgrade) describes how to move the links of an existing database",
		}
	}
	return nil
}

// RefuseDatabase adds the name of a setting to an error that refuses the database of this setting. Such an error means that
// the database is on a worker of a Citus cluster, or that it belongs to another program. RefuseDatabase returns any other
// error unchanged.
func RefuseDatabase(setting string, err error) error {
	switch {
	case errors.Is(err, migrations.ErrCitusWorker):
		return &config.Error{Name: setting, Got: "a worker of a Citus cluster", Takes: "a database that is not on a worker, such as the database of the coordinator"}
	case errors.Is(err, migrations.ErrForeign):
		return &config.Error{Name: setting, Got: err.Error(), Takes: "an empty database, or a database of Keypool"}
	}
	return err
}

// nameReadOnly names DATABASE_URL in err if err is the error of a PostgreSQL that accepts no writes. The result is not
// a [config.Error], because a supervisor does not start a program again after a config.Error. A standby accepts writes
// after its promotion, so the supervisor must try again.
func nameReadOnly(err error) error {
	const stateReadOnly = "25006" // read_only_sql_transaction
	var reply *pgconn.PgError
	if errors.As(err, &reply) && reply.Code == stateReadOnly {
		return fmt.Errorf("DATABASE_URL leads to a PostgreSQL that accepts no writes, such as a standby: %w", err)
	}
	return err
}

// unreachable is an error of a connection to the database.
type unreachable struct {
	text string
	error
}

func (e *unreachable) Error() string { return e.text }

func (e *unreachable) Unwrap() error { return e.error }

// nameUnreachable names DATABASE_URL in err if err is the error of a connection. The text has the user and the database, and it
// says for each address why the connection failed. It has no password. If two attempts at an address, with and without TLS, fail
// for the same reason, the text has this reason once.
func nameUnreachable(err error) error {
	connect, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok {
		return err
	}
	var reasons []string
	for line := range strings.SplitSeq(connect.Unwrap().Error(), "\n") {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(reasons, line) {
			reasons = append(reasons, line)
		}
	}
	return &unreachable{fmt.Sprintf("cannot connect to the database %q of DATABASE_URL as user %q: %s",
		connect.Config.Database, connect.Config.User, strings.Join(reasons, "; ")), err}
}
