package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// ErrForeign means that the database belongs to another program: it has tables with names that a migration needs, or the
// schema version of another program.
var ErrForeign = errors.New("the database belongs to another program")

// creates matches a statement that gives a name to a table, a view, a sequence or an index.
var creates = regexp.MustCompile(`(?m)^(?:CREATE (?:OR REPLACE )?(?:UNIQUE )?(?:TABLE|VIEW|SEQUENCE|INDEX)(?: CONCURRENTLY)?(?: IF NOT EXISTS)?|ALTER TABLE \w+ RENAME TO) (\w+)`)

// refuseForeign fails with ErrForeign if db was never migrated and belongs to another program. The caller must hold the
// lock of the migration. Without the lock, refuseForeign could mistake the tables of a running migration for tables of
// another program.
func refuseForeign(ctx context.Context, db *sql.DB, engine Engine) error {
	version, err := Version(ctx, db, engine)
	if err == nil && version == 0 {
		err = checkUnused(ctx, db, engine)
	}
	return err
}

// checkUnused fails with ErrForeign if db, which was never migrated, already has a relation with a name that the migrations
// use. Without this check, a migration would fail at this name, and the tables that it created before would remain.
func checkUnused(ctx context.Context, db *sql.DB, engine Engine) error {
	have, err := relations(ctx, db, engine)
	if err != nil {
		return fmt.Errorf("list the tables of the database: %w", err)
	}
	want, err := names(engine)
	if err != nil {
		return err
	}
	foreign := slices.DeleteFunc(have, func(name string) bool {
		if engine == SQLite { // SQLite ignores the case of letters in names
			name = strings.ToLower(name)
		}
		return !want[name]
	})
	if len(foreign) > 0 {
		return fmt.Errorf("%w: it has no schema version of Keypool, but it has %s", ErrForeign, strings.Join(foreign, ", "))
	}
	return nil
}

// relations returns the names of the relations, such as tables, views and indexes, in the schema in which a migration creates
// its tables.
func relations(ctx context.Context, db *sql.DB, engine Engine) (list []string, err error) {
	query := `SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = current_schema() ORDER BY relname`
	if engine == SQLite {
		query = `SELECT name FROM sqlite_master WHERE type <> 'trigger' ORDER BY name`
	}
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		list = append(list, name)
	}
	return list, rows.Err()
}

// names returns the names that the migrations give to relations.
func names(engine Engine) (set map[string]bool, err error) {
	paths, err := fs.Glob(files, string(engine)+"/*.sql")
	if err != nil {
		return nil, fmt.Errorf("migrations for %s: %w", engine, err)
	}
	set = map[string]bool{}
	for _, path := range paths {
		text, err := files.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("migrations for %s: %w", engine, err)
		}
		for _, match := range creates.FindAllSubmatch(text, -1) {
			set[string(match[1])] = true
		}
	}
	return set, nil
}
