package bars

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"keypool/internal/sqlite"
	"keypool/kgs"
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
	storeConns = 8         // number of connections to PostgreSQL; a server opens as many for its links
	fillRows   = 1_000_000 // links that one transaction of fill makes

	// urlPrefix is the beginning of the URL of every link.
	urlPrefix = measure.Target + "?a=parameter&of=ordinary&length="

	// secret is the FF1 key of the databases, as a value of KGS_SECRET.
	secret = "000102030405060708090a0b0c0d0e0f"
)

// space converts numbers to the codes of the databases. Its FF1 key is the constant secret.
//
//nolint:gochecknoglobals // the value never changes
var space = func() *codespace.Space {
	key, err := hex.DecodeString(secret)
	if err != nil {
		panic(err)
	}
	s, err := codespace.New(key)
	if err != nil {
		panic(err)
	}
	return s
}()

// engine is a database engine.
type engine struct {
	name, short string
	embedded    bool     // the embedded server uses this engine
	after       []string // statements to execute after each change
	open        func(t *experiment.T) database
}

func sqliteEngine() engine {
	return engine{
		name: "SQLite", short: "sqlite", embedded: true, open: openSQLite,
		after: []string{`PRAGMA wal_checkpoint(TRUNCATE)`},
	}
}

func postgresEngine() engine {
	return engine{
		name: "PostgreSQL", short: "postgres", open: openPostgres,
		// Without these statements, PostgreSQL would vacuum and write a checkpoint during a measurement.
		after: []string{`VACUUM (ANALYZE) ranked_links`, `CHECKPOINT`},
	}
}

// database is an empty database of one engine.
type database struct {
	url   string // value of DATABASE_URL
	dir   string // directory of its files
	store shortener.Store
	db    *sql.DB
	load  func(ctx context.Context, links []shortener.Link) error // stores links in one transaction
}

// filled is a database with links. Their codes stand for the numbers from 0 to links-1, as if the
// ledger had reserved these numbers.
type filled struct {
	engine
	database
	links int64
	next  int64  // number of the next new link
	codes string // file that holds the codes of the links one after the other
}

// String returns a description such as "SQLite with 10 million links".
func (f *filled) String() string {
	return fmt.Sprintf("%s with %g million links", f.name, float64(f.links)/1e6)
}

// settings returns the settings of a server that uses the database.
func (f *filled) settings() []string {
	return []string{"DATABASE_URL=" + f.url, "KGS_SECRET=" + secret}
}

// anyCode returns the code of a random link.
func (f *filled) anyCode() string {
	return space.Code(codeLength, rand.Int64N(f.links)) //nolint:gosec // the random number need not be secret
}

// urlOf returns the URL of the link with the code.
func urlOf(code string) string { return urlPrefix + code }

// linkOf returns the link with the code, as a creation with a key makes it.
func linkOf(code string) shortener.Link {
	return shortener.Link{Code: code, URL: urlOf(code), Source: kgs.SourcePool, CreatedAt: time.Now().UTC()}
}

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
	return database{"sqlite:" + path, filepath.Dir(path), sqlitestore.New(db, space), db.Write, func(ctx context.Context, links []shortener.Link) error {
		return loadSQLite(ctx, db.Write, links)
	}}
}

func loadSQLite(ctx context.Context, db *sql.DB, links []shortener.Link) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit
	insert, err := tx.PrepareContext(ctx, `INSERT INTO ranked_links (rank, code, url, source, created_at) VALUES (?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, insert.Close()) }()
	for _, l := range links {
		rank, _ := space.Rank(l.Code)
		if _, err := insert.ExecContext(ctx, rank, l.Code, l.URL, l.Source, l.CreatedAt.UnixMicro()); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(links, measure.Connections) { // as many links as a group commit of a busy server has
		codes := make([]string, len(part))
		for i := range part {
			codes[i] = part[i].Code
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO creations (codes) VALUES (?)`, strings.Join(codes, " ")); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func openPostgres(t *experiment.T) database {
	server := lab.Postgres(t)
	config, err := pgxpool.ParseConfig(server.URL)
	t.Must(err)
	config.MaxConns = storeConns
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	t.Must(err)
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	closeAfter(t, db)
	t.Must(migrations.Up(t.Context(), db, migrations.PostgreSQL))
	return database{server.URL, server.Dir(), pgstore.New(pool, space), db, func(ctx context.Context, links []shortener.Link) error {
		return loadPostgres(ctx, pool, links)
	}}
}

func loadPostgres(ctx context.Context, pool *pgxpool.Pool, links []shortener.Link) error {
	columns := []string{"rank", "code", "url", "source", "created_at"}
	_, err := pool.CopyFrom(ctx, pgx.Identifier{"ranked_links"}, columns, pgx.CopyFromSlice(len(links), func(i int) ([]any, error) {
		l := &links[i]
		rank, _ := space.Rank(l.Code)
		return []any{rank, l.Code, l.URL, l.Source, l.CreatedAt}, nil
	}))
	return err
}

// fill makes a database with the given number of links. The numbers that its ledger reserves later follow the numbers
// of these links.
func fill(t *experiment.T, e engine, links int64) *filled {
	f := &filled{engine: e, database: e.open(t), links: links, next: links, codes: filepath.Join(t.TempDir(), "codes")}
	file, err := os.Create(f.codes)
	t.Must(err)
	closeAfter(t, file)
	begun := time.Now()
	t.Must(f.change(t.Context(), fmt.Sprintf(`INSERT INTO link_order (id, fingerprint) VALUES (1, '%s')`, space.Fingerprint())))
	for lo := int64(0); lo < links; lo += fillRows {
		codes := space.Codes(codespace.Range{Length: codeLength, Lo: lo, Hi: min(lo+fillRows, links)})
		made := make([]shortener.Link, len(codes))
		for i, code := range codes {
			made[i] = linkOf(code)
		}
		t.Must(f.load(t.Context(), made))
		_, err := file.WriteString(strings.Join(codes, ""))
		t.Must(err)
	}
	t.Must(f.change(t.Context(), fmt.Sprintf(`UPDATE kgs_spaces SET next = %d WHERE length = %d`, links, codeLength)))
	t.Logf("%v: filled in %.0f s", f, time.Since(begun).Seconds())
	return f
}

// remove removes the links that were stored after fill, so that the database has the same links as directly after fill.
func (f *filled) remove(ctx context.Context) error {
	first, _ := space.Rank(space.Code(codeLength, f.links))
	f.next = f.links
	return f.change(ctx, fmt.Sprintf(`DELETE FROM ranked_links WHERE rank >= %d`, first))
}

// change executes a statement, and then the statements that the engine needs after a change.
func (f *filled) change(ctx context.Context, statement string) error {
	for _, statement := range slices.Concat([]string{statement}, f.after) {
		if _, err := f.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// readAhead reads the files once, so that they are in the page cache if they fit into memory.
func (f *filled) readAhead(t *experiment.T) { t.Must(measure.ReadAhead(t.Context(), f.dir)) }

// putResident records the share of the files that is in the page cache.
func (f *filled) putResident(t *experiment.T, r *record, name string) {
	percent, err := measure.Resident(t.Context(), f.dir)
	if err != nil {
		t.Errorf("%w", err)
		return
	}
	r.put(name+f.name, measure.Series{percent}, nil)
}
