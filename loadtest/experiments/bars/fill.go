package bars

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"keypool/internal/sqlite"
	"keypool/kgs/codespace"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/migrations"
	"keypool/shortener"
	"keypool/shortener/pgstore"
	"keypool/shortener/sqlitestore"
)

const (
	codeLength = 6
	codeSpace  = 62 * 62 * 62 * 62 * 62 * 62
	storeConns = 8         // connections to PostgreSQL, as many as a server opens
	fillRows   = 1_000_000 // numbers that one transaction of fill covers
	removeRows = 10_000    // links that one transaction removes

	// urlPrefix is the beginning of the URL of every link.
	urlPrefix = measure.Target + "?a=parameter&of=ordinary&length="
)

// plain writes numbers in base62.
var plain = codespace.Plain() //nolint:gochecknoglobals // immutable

// engine is a database engine with the SQL that is specific to it.
type engine struct {
	name, short string
	embedded    bool     // the embedded server uses this engine
	numbers     string   // SQL of a table of the numbers i, from the first argument to below the second
	now         string   // the current time as a value of created_at
	after       []string // statements to execute after each change
	open        func(t *experiment.T) database
}

func sqliteEngine() engine {
	return engine{
		name: "SQLite", short: "sqlite", embedded: true, open: openSQLite,
		numbers: `(WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i + 1 < %d) SELECT i FROM n)`,
		now:     `unixepoch() * 1000000`,
		after:   []string{`PRAGMA wal_checkpoint(TRUNCATE)`},
	}
}

func postgresEngine() engine {
	return engine{
		name: "PostgreSQL", short: "postgres", open: openPostgres,
		numbers: `generate_series(%d::bigint, %d::bigint - 1) AS numbers(i)`,
		now:     `now()`,
		// Otherwise PostgreSQL would vacuum and write a checkpoint in the background during a measurement.
		after: []string{`VACUUM (ANALYZE) links`, `CHECKPOINT`},
	}
}

// database is an empty database of one engine.
type database struct {
	url   string // value of DATABASE_URL
	store shortener.Store
	db    *sql.DB
}

// filled is a database with links whose codes are spread evenly over the space.
type filled struct {
	engine
	database
	links int64
}

// String returns a description such as "SQLite with 10 million links".
func (f *filled) String() string {
	return fmt.Sprintf("%s with %g million links", f.name, float64(f.links)/1e6)
}

// step returns the difference between the numbers of two neighbouring codes.
func (f *filled) step() int64 { return codeSpace / f.links }

// anyCode returns the code of a random link.
func (f *filled) anyCode() string {
	return plain.Code(codeLength, rand.Int64N(f.links)*f.step()) //nolint:gosec // not a secret
}

// urlOf returns the URL of the link with the code.
func urlOf(code string) string { return urlPrefix + code }

// closeAfter closes a database at the end of the run.
func closeAfter(t *experiment.T, db io.Closer) {
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close the database: %w", err)
		}
	})
}

func openSQLite(t *experiment.T) database {
	path := filepath.Join(t.TempDir(), "links.db")
	db, err := sqlite.Open(t.Context(), path)
	t.Must(err)
	closeAfter(t, db)
	t.Must(migrations.Up(t.Context(), db.Write, migrations.SQLite))
	return database{"sqlite:" + path, sqlitestore.New(db), db.Write}
}

func openPostgres(t *experiment.T) database {
	url := lab.Postgres(t).URL
	config, err := pgxpool.ParseConfig(url)
	t.Must(err)
	config.MaxConns = storeConns
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	t.Must(err)
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	closeAfter(t, db)
	t.Must(migrations.Up(t.Context(), db, migrations.PostgreSQL))
	return database{url, pgstore.New(pool), db}
}

// fill makes a database with links. The engine itself makes the links in the order of their codes,
// because this is fast. It first makes two of three links and then the links between them. This
// splits the pages of the index. They are then as full as the pages of an index that grew in random
// order.
func fill(t *experiment.T, e engine, links int64) *filled {
	f := &filled{engine: e, database: e.open(t), links: links}
	begun := time.Now()
	var statements []string
	for _, third := range []string{"i % 3 < 2", "i % 3 = 2"} {
		for lo := int64(0); lo < links; lo += fillRows {
			numbers := fmt.Sprintf(e.numbers, lo, min(lo+fillRows, links))
			statements = append(statements, fmt.Sprintf(`INSERT INTO links (code, url, source, created_at)
				SELECT code, '%s' || code, '%s', %s FROM (SELECT %s AS code FROM %s WHERE %s) AS made`,
				urlPrefix, shortener.SourceAlias, e.now, f.codeSQL(), numbers, third))
		}
	}
	t.Must(f.change(t.Context(), statements))
	t.Logf("%v: filled in %.0f s", f, time.Since(begun).Seconds())
	return f
}

// remove removes the links of the codes. It leaves the database in the same state as fill.
func (f *filled) remove(ctx context.Context, codes []string) error {
	slices.Sort(codes) // neighbours are on the same page
	var statements []string
	for some := range slices.Chunk(codes, removeRows) {
		statements = append(statements, "DELETE FROM links WHERE code IN ('"+strings.Join(some, "', '")+"')")
	}
	return f.change(ctx, statements)
}

// change executes the statements, and then the statements that the engine needs after a change.
func (f *filled) change(ctx context.Context, statements []string) error {
	for _, statement := range slices.Concat(statements, f.after) {
		if _, err := f.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// codeSQL returns an SQL expression for the code of the i-th link.
func (f *filled) codeSQL() string {
	var digits []string
	for value := int64(codeSpace / 62); value > 0; value /= 62 {
		digits = append(digits, fmt.Sprintf(`substr('%s', CAST(i * %d / %d %% 62 AS integer) + 1, 1)`, codespace.Alphabet, f.step(), value))
	}
	return strings.Join(digits, " || ")
}
