package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"keypool/internal/testenv"
	"keypool/migrations"
)

// answerTime is the time for which a server waits for a look-up. After this time, the server answers with the status 503.
const answerTime = 900 * time.Millisecond

// online is a PostgreSQL database with an earlier version of the schema. During a migration, the tests use the database
// as servers do.
type online struct {
	*sql.DB
	t *testing.T
}

// openOnline returns a database with the given version and one link in each of the two tables of links.
func openOnline(t *testing.T, version int64) *online {
	t.Helper()
	config, err := pgx.ParseConfig(testenv.PostgresURL(t))
	if err != nil {
		t.Fatal("cannot parse the URL of the PostgreSQL server")
	}
	db := stdlib.OpenDB(*config) // a test may need more connections than a pgxpool opens by default
	t.Cleanup(func() { closeDB(t, db.Close) })
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("postgres"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	o := &online{db, t}
	o.insert(t.Context(), 1)
	return o
}

// insert inserts one link into ranked_links and one link into unranked_links, as creations do.
func (o *online) insert(ctx context.Context, rank int) {
	o.t.Helper()
	for _, statement := range []string{
		`INSERT INTO ranked_links (rank, code, url, source, created_at) VALUES ($1, 'a' || $1::bigint, '', 'pool', now())`,
		`INSERT INTO unranked_links (code, url, source, created_at) VALUES ('-' || $1::bigint, '', 'alias', now())`,
	} {
		if _, err := o.ExecContext(ctx, statement, rank); err != nil {
			o.t.Errorf("a creation failed: %v", err)
		}
	}
}

// wantAnswers checks that a look-up and a creation succeed within answerTime.
func (o *online) wantAnswers() {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), answerTime)
	defer cancel()
	var found int
	if err := o.QueryRowContext(ctx, `SELECT count(*) FROM ranked_links, unranked_links WHERE rank = 1`).Scan(&found); err != nil || found == 0 {
		o.t.Errorf("a look-up during the migration found %d rows, error %v", found, err)
	}
	o.insert(ctx, 2)
}

// begin returns a transaction that has executed the statement. The transaction is rolled back at the end of the test.
func (o *online) begin(statement string) *sql.Tx {
	o.t.Helper()
	tx, err := o.BeginTx(o.t.Context(), nil)
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = tx.Rollback() }) // has no effect after a commit
	if _, err := tx.ExecContext(o.t.Context(), statement); err != nil {
		o.t.Fatal(err)
	}
	return tx
}

// await waits until a query returns true.
func (o *online) await(what, query string) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), 2*time.Minute)
	defer cancel()
	for reached := false; !reached; {
		if err := o.QueryRowContext(ctx, query).Scan(&reached); err != nil {
			o.t.Fatalf("wait until %s: %v", what, err)
		}
	}
}

// up starts a migration. The function wait waits for the end of the migration and returns its error.
func (o *online) up(ctx context.Context) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- migrations.Up(ctx, o.DB, migrations.PostgreSQL) }()
	return func() error { return <-done }
}

const (
	// waitsForTable is true while a statement waits for the lock of the table of links.
	waitsForTable = `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'ranked_links'::regclass AND NOT granted)`
	// buildsIndex is true while the build of an index of the table waits for a transaction that writes links.
	buildsIndex = `SELECT EXISTS (SELECT FROM pg_stat_progress_create_index WHERE relid = 'ranked_links'::regclass AND phase LIKE 'waiting%')`
	// createdIndex is like the statement with which version 11 builds its first index.
	createdIndex = `CREATE INDEX CONCURRENTLY ranked_links_created ON ranked_links (created_at, rank)`
	// formerIndexes are the statements that version 9 once contained.
	formerIndexes = `CREATE INDEX ranked_links_created ON ranked_links (created_at, rank);
		CREATE INDEX unranked_links_created ON unranked_links (created_at, code);
		CREATE INDEX ranked_links_owner ON ranked_links (((details->>'owner')::bigint), created_at, rank) WHERE details IS NOT NULL;
		CREATE INDEX unranked_links_owner ON unranked_links (((details->>'owner')::bigint), created_at, code) WHERE details IS NOT NULL`
)

// readLinks locks the table of links as a look-up does. writeLinks locks this table as a creation does. A transaction
// holds its lock until it ends.
const (
	readLinks  = `LOCK TABLE ranked_links IN ACCESS SHARE MODE`
	writeLinks = `LOCK TABLE ranked_links IN ROW EXCLUSIVE MODE`
)

// indexes returns the definitions of the valid indexes of the tables of links or, if numbers is true, their object ids.
// An index gets a new object id when it is built again.
func (o *online) indexes(numbers bool) []string {
	o.t.Helper()
	column := `pg_get_indexdef(indexrelid)`
	if numbers {
		column = `indexrelid::text`
	}
	var all string
	err := o.QueryRowContext(o.t.Context(), `SELECT string_agg(replace(`+column+`, current_schema() || '.', ''), E'\n' ORDER BY indexrelid::regclass::text)
		FROM pg_index WHERE indrelid IN ('ranked_links'::regclass, 'unranked_links'::regclass) AND indisvalid`).Scan(&all)
	if err != nil {
		o.t.Fatal(err)
	}
	return strings.Split(all, "\n")
}

// wantMigrated waits for the end of a migration, which must have built all indexes.
func (o *online) wantMigrated(wait func() error) {
	o.t.Helper()
	if err := wait(); err != nil {
		o.t.Fatal(err)
	}
	fresh := openOnline(o.t, 10)
	if _, err := fresh.ExecContext(o.t.Context(), formerIndexes); err != nil {
		o.t.Fatal(err)
	}
	if diff := cmp.Diff(fresh.indexes(false), o.indexes(false)); diff != "" {
		o.t.Errorf("the indexes (-of the former version 9 +after the migration):\n%s", diff)
	}
}

func commit(t *testing.T, tx *sql.Tx) {
	t.Helper()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// A transaction that reads the links for a long time delays the migration. Look-ups and creations must not wait for
// the migration.
func TestMigrationThatWaitsForLongReadDoesNotBlockServers(t *testing.T) {
	t.Parallel()
	o := openOnline(t, 8)
	long := o.begin(readLinks)
	wait := o.up(t.Context())
	o.await("the migration waits for the table", waitsForTable)
	o.wantAnswers()
	commit(t, long)
	o.wantMigrated(wait)
}

func TestIndexBuildDoesNotBlockServers(t *testing.T) {
	t.Parallel()
	o := openOnline(t, 10)
	creation := o.begin(writeLinks)
	wait := o.up(t.Context())
	o.await("an index is built", buildsIndex)
	o.wantAnswers()
	commit(t, creation)
	o.wantMigrated(wait)
}

// An interrupted build leaves an invalid index. The next migration must build this index again.
func TestMigrationRepeatsInterruptedIndexBuild(t *testing.T) {
	t.Parallel()
	o := openOnline(t, 10)
	creation := o.begin(writeLinks)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wait := o.up(ctx)
	o.await("an index is built", buildsIndex)
	cancel()
	if err := wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("the interrupted migration returned %v, want context.Canceled", err)
	}
	o.await("an invalid index remains", `SELECT EXISTS (SELECT FROM pg_index WHERE indrelid = 'ranked_links'::regclass AND NOT indisvalid)`)
	commit(t, creation)
	o.wantMigrated(o.up(t.Context()))
}

// If a process is killed while PostgreSQL builds an index for it, PostgreSQL continues the build.
// The next migration must build the index again.
func TestMigrationRepeatsIndexBuildOfKilledProcess(t *testing.T) {
	t.Parallel()
	o := openOnline(t, 10)
	creation := o.begin(writeLinks)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = o.ExecContext(context.WithoutCancel(t.Context()), createdIndex) // fails if PostgreSQL ends it to resolve a deadlock
	}()
	o.await("an index is built", buildsIndex)
	wait := o.up(t.Context())
	o.await("the migration waits for the build", waitsForTable)
	o.wantAnswers()
	commit(t, creation)
	o.wantMigrated(wait)
	<-ended
}

// In some databases, the migration to version 9 created the indexes, because version 9 once
// contained the statements formerIndexes. The migration to version 11 must keep these indexes.
func TestMigrationKeepsIndexesFromEarlierEditionOfVersion9(t *testing.T) {
	t.Parallel()
	for _, version := range []int64{9, 10} {
		o := openOnline(t, version)
		if _, err := o.ExecContext(t.Context(), formerIndexes); err != nil {
			t.Fatal(err)
		}
		before := o.indexes(true)
		o.wantMigrated(o.up(t.Context()))
		if diff := cmp.Diff(before, o.indexes(true)); diff != "" {
			t.Errorf("version %d: indexes were built again (-before +after):\n%s", version, diff)
		}
	}
}

// The start of a server has a time limit of 30 s. The migration must fail earlier, with an error
// that says what prevents the migration.
func TestMigrationErrorNamesReasonAfterLockTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		locked, began := &pgconn.PgError{Code: "55P03"}, time.Now()
		err := migrations.WhenUnlocked(t.Context(), func() error { return locked })
		if took := time.Since(began); !errors.Is(err, locked) || !strings.Contains(err.Error(), "a long transaction") || took > 25*time.Second {
			t.Errorf("after %v, the error is %v; want a text about a long transaction within 25 s", took, err)
		}
		calls := 0
		if err := migrations.WhenUnlocked(t.Context(), func() error { calls++; return os.ErrInvalid }); !errors.Is(err, os.ErrInvalid) || calls != 1 {
			t.Errorf("after an error that is not a lock failure: %d calls, error %v; want one call and os.ErrInvalid", calls, err)
		}
	})
}

// If the start of a server reaches its time limit during a migration, the error must name the
// command that has no limit.
func TestMigrationErrorAfterTimeLimitNamesCommand(t *testing.T) {
	t.Parallel()
	o := openOnline(t, 8)
	o.begin(readLinks)
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	if err := o.up(ctx)(); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "run `shortener migrate`") {
		t.Errorf("a migration without enough time returned %v, want DeadlineExceeded and the command", err)
	}
}

// From version 9 on, servers run during a migration. A migration file that changes a table of an
// earlier file must then follow the rules in online.go.
func TestMigrationFilesDoNotBlockServers(t *testing.T) {
	t.Parallel()
	created := regexp.MustCompile(`CREATE TABLE (\w+)`)
	altered := regexp.MustCompile(`ALTER TABLE (\w+)`)
	indexed := regexp.MustCompile(`CREATE (?:UNIQUE )?INDEX (CONCURRENTLY IF NOT EXISTS |)\w+ ON (\w+)`)
	paths, err := filepath.Glob("postgres/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	earlier := map[string]bool{}
	for i, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		online := i+1 >= 9
		for _, match := range altered.FindAllSubmatch(text, -1) {
			if online && earlier[string(match[1])] && !strings.Contains(string(text), "SET LOCAL lock_timeout") {
				t.Errorf("%s changes the table %s and has no lock_timeout", path, match[1])
			}
		}
		for _, match := range indexed.FindAllSubmatch(text, -1) {
			if online && earlier[string(match[2])] && len(match[1]) == 0 {
				t.Errorf("%s builds an index of %s and blocks writes", path, match[2])
			}
		}
		for _, match := range created.FindAllSubmatch(text, -1) {
			earlier[string(match[1])] = true
		}
	}
}
