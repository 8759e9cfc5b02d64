package lab

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver pgx
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite" // registers the driver sqlite

	"keypool/loadtest"
)

// queryTimeout limits the work on one connection to a database.
const queryTimeout = 30 * time.Second

// query calls f with a connection to the PostgreSQL at url and closes the connection.
func query(ctx context.Context, url string, f func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(f(ctx, conn), conn.Close(context.WithoutCancel(ctx)))
}

// Execute runs one SQL statement on a new connection.
func Execute(r T, url, statement string, args ...any) {
	err := query(r.Context(), url, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement, args...)
		return err
	})
	must(r, err, "query PostgreSQL")
}

// Values returns the values that an SQL statement with one column selects from the PostgreSQL at url. It may be
// called concurrently.
func Values[V any](ctx context.Context, url, statement string, args ...any) (all []V, err error) {
	err = query(ctx, url, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, statement, args...)
		if err == nil {
			all, err = pgx.CollectRows(rows, pgx.RowTo[V])
		}
		return err
	})
	return all, err
}

// Value is like Values, but the statement must select exactly one row. An error ends the run.
func Value[V any](r T, url, statement string, args ...any) V {
	value, err := TryValue[V](r.Context(), url, statement, args...)
	must(r, err, "query PostgreSQL")
	return value
}

// TryValue is like Value but returns an error.
func TryValue[V any](ctx context.Context, url, statement string, args ...any) (value V, err error) {
	all, err := Values[V](ctx, url, statement, args...)
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("the statement selects %d rows, want 1: %s", len(all), statement)
	}
	if err != nil {
		return value, err
	}
	return all[0], nil
}

// CreateDatabase creates a database on the PostgreSQL at address and returns its URL. The database is a copy of
// template, or empty if template is "". name and template must be plain SQL identifiers, because the statement
// does not quote them.
func CreateDatabase(r T, address, name, template string) string {
	statement := "CREATE DATABASE " + name
	if template != "" {
		statement += " TEMPLATE " + template
	}
	Execute(r, address, statement)
	u, err := url.Parse(address)
	must(r, err, "parse the URL of PostgreSQL")
	u.Path = "/" + name
	return u.String()
}

// Census returns a census that reads all links of the PostgreSQL at address, or of an SQLite file
// ("sqlite:PATH"). Servers may use the database while the census reads it.
func Census(address string) loadtest.Census {
	return func(ctx context.Context, each func(code, url string)) error {
		return rows(ctx, address, "SELECT code, url FROM all_links", func(scan func(...any) error) error {
			var code, url string
			if err := scan(&code, &url); err != nil {
				return err
			}
			each(code, url)
			return nil
		})
	}
}

// CountLinks returns how many links the database holds. It may be called concurrently.
func CountLinks(ctx context.Context, address string) (n int64, err error) {
	return count(ctx, address, "SELECT count(*) FROM all_links")
}

// CountOwned returns how many links with an owner the database holds. It does not count links whose alias has a
// hyphen, an underscore or more than 10 characters, because they are not in ranked_links. It may be called
// concurrently.
func CountOwned(ctx context.Context, address string) (n int64, err error) {
	return count(ctx, address, "SELECT count(*) FROM ranked_links WHERE details->>'owner' IS NOT NULL")
}

// CountVisits returns, for each code, the number of visits that the database holds. It may be called concurrently.
func CountVisits(ctx context.Context, address string) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	visits := make(map[string]int64)
	err := rows(ctx, address, "SELECT code, CAST(sum(human + bot) AS bigint) FROM visits GROUP BY code", func(scan func(...any) error) error {
		var code string
		var n int64
		err := scan(&code, &n)
		visits[code] = n
		return err
	})
	return visits, err
}

// LogPosition returns how many bytes the PostgreSQL at address has written to its write-ahead log in
// total. It may be called concurrently.
func LogPosition(ctx context.Context, address string) (n int64, err error) {
	return count(ctx, address, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
}

// count returns the number that a query selects.
func count(ctx context.Context, address, query string) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	err = rows(ctx, address, query, func(scan func(...any) error) error { return scan(&n) })
	return n, err
}

// rows calls each for every row of the result.
func rows(ctx context.Context, address, query string, each func(scan func(...any) error) error) (err error) {
	driver, source := "pgx", address
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		driver, source = "sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	result, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = result.Close() }() // result.Err returns the error of the query
	for result.Next() {
		if err := each(result.Scan); err != nil {
			return err
		}
	}
	return result.Err()
}

// RedisClient returns a client of the Redis at a URL. The client does not repeat a command that failed, so the
// caller sees the error. The client is closed when the run ends.
func RedisClient(r T, address string) *redis.Client {
	opts, err := redis.ParseURL(address)
	if err != nil {
		r.Fatalf("the URL of Redis cannot be parsed") // err may contain the password
	}
	opts.MaxRetries, opts.ContextTimeoutEnabled = -1, true
	client := redis.NewClient(opts)
	r.Cleanup(func() {
		if err := client.Close(); err != nil {
			r.Errorf("close a Redis client: %v", err)
		}
	})
	return client
}

// UsedMemory returns how many bytes Redis has allocated. It repeats the request until Redis answers.
func UsedMemory(r T, client *redis.Client) (bytes int64) {
	Wait(r, Patience, "Redis reports its memory", func() bool {
		var err error
		bytes, err = strconv.ParseInt(client.InfoMap(r.Context(), "memory").Item("Memory", "used_memory"), 10, 64)
		return err == nil
	})
	return bytes
}

// ListedKeys counts the keys in a pool directly in Redis, so the figure does not depend on the program under
// test. It counts the elements of all lists, so the Redis must contain only the pool.
func ListedKeys(ctx context.Context, client *redis.Client) (int64, error) {
	return client.Eval(ctx, `
		local n = 0
		for _, name in ipairs(redis.call('KEYS', '*')) do -- a pool has few Redis keys
			if redis.call('TYPE', name).ok == 'list' then n = n + redis.call('LLEN', name) end
		end
		return n`, nil).Int64()
}
