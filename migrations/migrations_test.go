package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"keypool/internal/sqlite"
	"keypool/internal/testenv"
	"keypool/migrations"
)

// starters is the number of concurrent migrations of one database.
const starters = 16

// childVariable is the name of an environment variable. If the variable contains the path of a SQLite database,
// the test binary migrates this database and exits.
const childVariable = "KEYPOOL_TEST_MIGRATE"

func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		if err := migrateSQLite(context.Background(), path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testenv.Main(m)
}

func migrateSQLite(ctx context.Context, path string) error {
	db, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	return errors.Join(migrations.Up(ctx, db.Write, migrations.SQLite), db.Close())
}

func migratePostgres(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	return errors.Join(migrations.Up(ctx, db, migrations.PostgreSQL), db.Close())
}

// onBoth runs a test on an empty database of each engine.
func onBoth(t *testing.T, test func(t *testing.T, db *sql.DB, engine migrations.Engine)) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		db := stdlib.OpenDBFromPool(testenv.Postgres(t))
		t.Cleanup(func() { closeDB(t, db.Close) })
		test(t, db, migrations.PostgreSQL)
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeDB(t, db.Close) })
		test(t, db.Write, migrations.SQLite)
	})
}

func closeDB(t *testing.T, closer func() error) {
	t.Helper()
	if err := closer(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func TestFunctionUpCreatesEveryTable(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sql.DB, engine migrations.Engine) {
		if err := migrations.Check(t.Context(), db, engine); !errors.Is(err, migrations.ErrOlderSchema) {
			t.Errorf("Check of an empty database: %v, want ErrOlderSchema", err)
		}
		if tables := tables(t, db, engine); len(tables) != 0 {
			t.Errorf("Check created the tables %v", tables)
		}
		for range 2 { // the second call has nothing to do
			if err := migrations.Up(t.Context(), db, engine); err != nil {
				t.Fatal(err)
			}
		}
		if err := migrations.Check(t.Context(), db, engine); err != nil {
			t.Errorf("Check after the migration: %v", err)
		}
		want := []string{"goose_db_version", "idempotency_keys", "kgs_epochs", "kgs_holders", "kgs_leases", "kgs_ledger", "kgs_machines", "kgs_ranges", "kgs_spaces",
			"link_order", "links_earlier", "ranked_links", "token_changes", "tokens", "unranked_links", "visit_facets", "visit_writers", "visits"}
		switch engine {
		case migrations.SQLite: // SQLite has no sequences
			want = append(want, "creations", "kgs_tickets")
		case migrations.PostgreSQL: // only PostgreSQL has the tables of the key source postgres-pool
			want = append(want, "available_keys", "key_pool", "used_keys")
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, tables(t, db, engine)); diff != "" {
			t.Errorf("tables (-want +got):\n%s", diff)
		}
		known, err := migrations.Names(engine)
		if err != nil {
			t.Fatal(err)
		}
		relations, err := migrations.Relations(t.Context(), db, engine)
		if err != nil {
			t.Fatal(err)
		}
		// The engine chooses the names of primary keys and of other constraints.
		chosen := regexp.MustCompile(`^(goose_db_version|sqlite_)|_(key|pkey|id_seq)$`)
		for _, name := range relations {
			if !known[name] && !chosen.MatchString(name) {
				t.Errorf("the name %s is missing from the names that the check for another program looks for", name)
			}
		}
	})
}

// Without the check for another program, the migration would create tables, and then fail at the name of the existing
// table.
func TestMigrationRefusesDatabaseOfAnotherProgram(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sql.DB, engine migrations.Engine) {
		visits := "visits"
		if engine == migrations.SQLite {
			visits = "Visits"
		}
		mustExec(t, db, `CREATE TABLE users (id bigint)`, `CREATE TABLE `+visits+` (id bigint)`)
		err := migrations.Up(t.Context(), db, engine)
		if !errors.Is(err, migrations.ErrForeign) || !strings.HasSuffix(err.Error(), "has "+visits) {
			t.Errorf("migration of a database with a table of another program: %v, want ErrForeign and the name of the table", err)
		}
		want := []string{"users", visits}
		slices.Sort(want)
		if diff := cmp.Diff(want, tables(t, db, engine)); diff != "" {
			t.Errorf("the migration changed the tables (-want +got):\n%s", diff)
		}
		mustExec(t, db, `DROP TABLE visits`)
		if err := migrations.Up(t.Context(), db, engine); err != nil {
			t.Errorf("migration of a database whose other tables have other names: %v", err)
		}
	})
}

func TestMigrationRefusesDatabaseOfAnotherProgramWithGoose(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sql.DB, engine migrations.Engine) {
		mustExec(t, db, `CREATE TABLE goose_db_version (version_id bigint)`, `INSERT INTO goose_db_version VALUES (0), (3)`)
		for name, f := range map[string]func(context.Context, *sql.DB, migrations.Engine) error{
			"up": migrations.Up, "check": migrations.Check,
		} {
			if err := f(t.Context(), db, engine); !errors.Is(err, migrations.ErrForeign) {
				t.Errorf("%s on a database of another program that uses goose: %v, want ErrForeign", name, err)
			}
		}
		if diff := cmp.Diff([]string{"goose_db_version"}, tables(t, db, engine)); diff != "" {
			t.Errorf("the tables changed (-want +got):\n%s", diff)
		}
	})
}

func mustExec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSpaceSizesArePowersOf62 compares the sizes in the SQL files with the powers of 62.
func TestSpaceSizesArePowersOf62(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sql.DB, engine migrations.Engine) {
		if err := migrations.Up(t.Context(), db, engine); err != nil {
			t.Fatal(err)
		}
		size := int64(62 * 62)
		for length := 3; length <= 10; length++ {
			size *= 62
			var got int64
			err := db.QueryRowContext(t.Context(), `SELECT size FROM kgs_spaces WHERE length = $1 AND next = 0`, length).Scan(&got)
			if err != nil || got != size {
				t.Errorf("the space of codes of length %d has the size %d, want %d; error %v", length, got, size, err)
			}
		}
	})
}

func TestFunctionsUpAndCheckRefuseNewerSchema(t *testing.T) {
	onBoth(t, func(t *testing.T, db *sql.DB, engine migrations.Engine) {
		if err := migrations.Up(t.Context(), db, engine); err != nil {
			t.Fatal(err)
		}
		all, err := filepath.Glob(string(engine) + "/*.sql")
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, $2)`, 4711, true)
		if err != nil {
			t.Fatal(err)
		}
		for name, f := range map[string]func(context.Context, *sql.DB, migrations.Engine) error{
			"up": migrations.Up, "check": migrations.Check,
		} {
			err := f(t.Context(), db, engine)
			if !errors.Is(err, migrations.ErrNewerSchema) {
				t.Fatalf("%s on a newer schema: %v, want ErrNewerSchema", name, err)
			}
			for _, word := range []string{"4711", fmt.Sprintf("up to %d:", len(all)), "upgrade"} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%s: the error %q does not contain %q", name, err, word)
				}
			}
		}
	})
}

func TestConcurrentMigrationsSucceed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		start func(t *testing.T) func(context.Context) error
	}{
		{"postgres", func(t *testing.T) func(context.Context) error {
			url := testenv.PostgresURL(t)
			return func(ctx context.Context) error { return migratePostgres(ctx, url) }
		}},
		{"sqlite", func(t *testing.T) func(context.Context) error {
			path := filepath.Join(t.TempDir(), "test.db")
			return func(ctx context.Context) error { return migrateSQLite(ctx, path) }
		}},
		{"sqlite processes", func(t *testing.T) func(context.Context) error {
			path := filepath.Join(t.TempDir(), "test.db")
			return func(ctx context.Context) error {
				cmd := exec.CommandContext(ctx, os.Args[0])
				cmd.Env = append(os.Environ(), childVariable+"="+path)
				if out, err := cmd.CombinedOutput(); err != nil {
					return fmt.Errorf("%w: %s", err, out)
				}
				return nil
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			up := tt.start(t)
			var wg sync.WaitGroup
			for range starters {
				wg.Go(func() {
					if err := up(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		})
	}
}

// Root may run a migration for the user of a service. The file of the lock must not block the next migration of this user.
func TestMigrationLockFileBelongsToOwnerOfDatabase(t *testing.T) {
	t.Parallel()
	user, group := os.Geteuid(), os.Getegid()
	if user == 0 { // only root can create a file for another user
		user, group = 65534, 65533
	}
	path := filepath.Join(t.TempDir(), "test.db")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, user, group), os.Chmod(path, 0o640)); err != nil {
		t.Fatal(err)
	}
	if err := migrateSQLite(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path + migrations.LockSuffix)
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t); int(owner.Uid) != user || int(owner.Gid) != group || info.Mode() != 0o640 {
		t.Errorf("the lock belongs to %d:%d and has the mode %v, want %d:%d and the mode of the database", owner.Uid, owner.Gid, info.Mode(), user, group)
	}
}

// TestMigrationWaitsForLock checks that no migration begins while another connection holds the lock.
// Therefore the migrations in TestConcurrentMigrationsSucceed run one after another.
func TestMigrationWaitsForLock(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "test.db")
		unlock, err := sqlite.Lock(t.Context(), path+"-migrate")
		if err != nil {
			t.Fatal(err)
		}
		defer closeDB(t, unlock)
		keptOut(t, func(ctx context.Context) error { return migrateSQLite(ctx, path) })
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := testenv.PostgresURL(t)
		pool, err := pgxpool.New(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		_, err = conn.Exec(t.Context(), `SELECT pg_advisory_lock(hashtext('keypool migrations'), hashtext(current_schema()))`)
		if err != nil {
			t.Fatal(err)
		}
		defer closeDB(t, func() error { // the session continues after the test and must not keep the lock
			_, err := conn.Exec(context.WithoutCancel(t.Context()), `SELECT pg_advisory_unlock_all()`)
			return err
		})
		keptOut(t, func(ctx context.Context) error { return migratePostgres(ctx, url) })
	})
}

func keptOut(t *testing.T, up func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := up(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a migration did not wait for the lock: %v", err)
	}
}

func tables(t *testing.T, db *sql.DB, engine migrations.Engine) (names []string) {
	t.Helper()
	query := `SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename`
	if engine == migrations.SQLite {
		query = `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name`
	}
	rows, err := db.QueryContext(t.Context(), query) //nolint:sqlclosecheck // closeDB closes it
	if err != nil {
		t.Fatal(err)
	}
	defer closeDB(t, rows.Close)
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}
