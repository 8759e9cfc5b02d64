package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Servers use the tables in PostgreSQL while a migration changes the tables. Requests must not wait for the migration.
// Therefore a file that changes a table of an earlier file follows two rules:
//
//   - The file limits its wait for the lock of the table (SET LOCAL lock_timeout). During this wait, all later
//     statements that use the table wait too.
//   - The file builds an index with CREATE INDEX CONCURRENTLY IF NOT EXISTS, outside of a transaction. An interrupted
//     build leaves an invalid index.
//
// The functions below repeat a migration that did not get its lock, and remove invalid indexes.

const (
	// lockAttempts is the maximum number of attempts. All attempts together take less time than the time limit for the
	// start of a server. So the start fails with errInUse, which names the reason, and not with a timeout.
	lockAttempts = 20
	// lockPause is the time between two attempts. Requests that waited because of an attempt continue during the pause.
	lockPause = time.Second
)

// errInUse reports that another transaction prevented the migration.
var errInUse = errors.New("a long transaction, such as a backup or an export, uses a table that the migration changes: " +
	"run `shortener migrate` after the end of that transaction")

// whenUnlocked calls f. If f fails because of a lock of another transaction, whenUnlocked calls f again. It
// calls f at most lockAttempts times in total.
func whenUnlocked(ctx context.Context, f func() error) error {
	for attempt := 1; ; attempt++ {
		err := f()
		if !isLockFailure(err) {
			return err
		}
		if attempt == lockAttempts {
			return fmt.Errorf("%w: %w", errInUse, err)
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// isLockFailure reports whether a statement failed because it did not get a lock in time, or because PostgreSQL ended
// the statement to resolve a deadlock. A deadlock is possible if a process was killed during the build of an index and
// PostgreSQL continues the build. The removal of the invalid index then waits for the build. In its last phase, the
// build waits for the statements that began before this phase, and the removal may be one of these statements.
func isLockFailure(err error) bool {
	const lockNotAvailable, deadlockDetected = "55P03", "40P01"
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == lockNotAvailable || e.Code == deadlockDetected)
}

// dropInvalid drops the indexes whose build was interrupted. If such an index remained, CREATE INDEX CONCURRENTLY IF NOT
// EXISTS would find its name and would not build the index again.
func dropInvalid(ctx context.Context, db *sql.DB) error {
	indexes, err := builtOnline()
	if err != nil {
		return err
	}
	for _, name := range indexes {
		var invalid bool
		err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_index
			WHERE indexrelid = to_regclass(quote_ident(current_schema()) || '.' || $1) AND NOT indisvalid)`, name).Scan(&invalid)
		if err == nil && invalid {
			_, err = db.ExecContext(ctx, `DROP INDEX CONCURRENTLY IF EXISTS `+name)
		}
		if err != nil {
			return fmt.Errorf("remove the unfinished index %s: %w", name, err)
		}
	}
	return nil
}

// builtOnline returns the names of the indexes that the files build outside of a transaction.
func builtOnline() (names []string, err error) {
	statement := regexp.MustCompile(`CREATE INDEX CONCURRENTLY IF NOT EXISTS (\w+)`)
	paths, err := fs.Glob(files, string(PostgreSQL)+"/*.sql")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := files.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for _, match := range statement.FindAllSubmatch(text, -1) {
			names = append(names, string(match[1]))
		}
	}
	return names, nil
}
