//go:build drill

package drill

import (
	"context"
	"database/sql"
	"errors"
	"net/url"

	"keypool/loadtest"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite
)

// postgresCensus reads the links of the Postgres at url.
func postgresCensus(url string) loadtest.Census { return census("pgx", url) }

// sqliteCensus reads the links of the SQLite file at path, which servers may be using.
func sqliteCensus(path string) loadtest.Census {
	return census("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&_pragma=busy_timeout(10000)")
}

func census(driver, source string) loadtest.Census {
	return func(ctx context.Context, each func(code, url string)) (err error) {
		db, err := sql.Open(driver, source)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		rows, err := db.QueryContext(ctx, "SELECT code, url FROM links")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var code, url string
			if err := rows.Scan(&code, &url); err != nil {
				return err
			}
			each(code, url)
		}
		return rows.Err()
	}
}
