package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"keypool/internal/sqlite"
	"keypool/internal/testenv/machine"
	"keypool/kgs/codespace"
	"keypool/loadtest"
	"keypool/loadtest/rounds"
	"keypool/loadtest/testbed"
	"keypool/migrations"
	"keypool/shortener"
	"keypool/shortener/pgstore"
	"keypool/shortener/sqlitestore"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// Sizes of databases, in links.
const (
	fewLinks  = 1_000_000
	manyLinks = 10_000_000
	mostLinks = 100_000_000
)

const (
	codeLength = 6
	codeSpace  = 62 * 62 * 62 * 62 * 62 * 62
	// storeConns is as many connections to PostgreSQL as a server has by default.
	storeConns = 8
)

type engine string

const (
	sqliteEngine   engine = "SQLite"
	postgresEngine engine = "PostgreSQL"
)

// stores are the databases that were filled so far, for all groups that want one.
type stores struct {
	postgres *machine.Server // nil as long as nobody wanted one
	filled   map[string]*filled
}

// filled is a database with links whose codes are evenly spread over the space.
type filled struct {
	engine engine
	url    string // as DATABASE_URL takes it
	links  int64
	codes  *codespace.Space // the plain one: they are numbers in base 62
	store  shortener.Store
	exec   func(ctx context.Context, statement string) error
}

// name says what it is: "SQLite with 10 million links".
func (f *filled) name() string { return fmt.Sprintf("%s with %s", f.engine, millions(f.links)) }

func millions(links int64) string { return fmt.Sprintf("%g million links", float64(links)/1e6) }

// step is how far apart the codes of neighbours are.
func (f *filled) step() int64 { return codeSpace / f.links }

// code is that of the n-th link, from 0.
func (f *filled) code(n int64) string { return f.codes.Code(codeLength, n*f.step()) }

// anyCode is that of a link by chance.
func (f *filled) anyCode() string {
	return f.code(rand.Int64N(f.links)) //nolint:gosec // nothing secret about it
}

// filled gives the database with so many links, which is made when it is first asked for
// and kept until the end of the run.
func (r *run) filled(ctx context.Context, e engine, links int64) (*filled, error) {
	if r.stores == nil {
		r.stores = &stores{filled: make(map[string]*filled)}
	}
	f := &filled{engine: e, links: links, codes: codespace.Plain()}
	if known := r.stores.filled[f.name()]; known != nil {
		return known, nil
	}
	r.Log("filling " + f.name())
	begun := time.Now()
	err := r.openStore(ctx, f)
	if err == nil {
		err = f.fill(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name(), err)
	}
	took := time.Since(begun)
	r.Log(fmt.Sprintf("filled in %.0f s: %s", took.Seconds(), rounds.Quantity(float64(links)/took.Seconds(), rounds.PerSecond)))
	r.stores.filled[f.name()] = f
	return f, nil
}

func (r *run) openStore(ctx context.Context, f *filled) error {
	if f.engine == sqliteEngine {
		return r.openSQLite(ctx, f)
	}
	return r.openPostgres(ctx, f)
}

func (r *run) openSQLite(ctx context.Context, f *filled) error {
	path := filepath.Join(r.dir, fmt.Sprintf("links-%d.db", f.links))
	db, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	r.end = append(r.end, db.Close)
	f.url, f.store = "sqlite:"+path, sqlitestore.New(db)
	f.exec = func(ctx context.Context, statement string) error {
		_, err := db.Write.ExecContext(ctx, statement)
		return err
	}
	return migrations.Up(ctx, db.Write, migrations.SQLite)
}

func (r *run) openPostgres(ctx context.Context, f *filled) error {
	if r.stores.postgres == nil {
		server, err := machine.StartPostgres(ctx)
		if err != nil {
			return err
		}
		r.stores.postgres = server
		r.end = append(r.end, server.Close)
	}
	var err error
	if f.url, err = testbed.CreateDatabase(ctx, r.stores.postgres.URL, fmt.Sprintf("links_%d", f.links), ""); err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(f.url)
	if err != nil {
		return err
	}
	config.MaxConns = storeConns
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	r.end = append(r.end, func() error { pool.Close(); return nil })
	f.store = pgstore.New(pool)
	f.exec = func(ctx context.Context, statement string) error {
		_, err := pool.Exec(ctx, statement)
		return err
	}
	db := stdlib.OpenDBFromPool(pool)
	return errors.Join(migrations.Up(ctx, db, migrations.PostgreSQL), db.Close())
}

// urlPrefix is what all URLs begin with.
const urlPrefix = target + "?a=parameter&of=ordinary&length="

// linkTo is an ordinary link, made by hand as far as the accounts are concerned.
func linkTo(code string) shortener.Link {
	return shortener.Link{
		Code: code, URL: urlPrefix + code, Source: shortener.SourceAlias, CreatedAt: time.Now().UTC(),
	}
}

func lookUp(ctx context.Context, store shortener.Store, code string) (shortener.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, loadtest.DefaultTimeout)
	defer cancel()
	return store.Lookup(ctx, code)
}

// insertAll fails unless all links are new.
func insertAll(ctx context.Context, store shortener.Store, links []shortener.Link) error {
	ctx, cancel := context.WithTimeout(ctx, loadtest.DefaultTimeout)
	defer cancel()
	outcomes, err := store.Insert(ctx, links)
	if err != nil {
		return err
	}
	for i, outcome := range outcomes {
		if outcome != shortener.Inserted {
			return fmt.Errorf("the store has a link %s already", links[i].Code)
		}
	}
	return nil
}
