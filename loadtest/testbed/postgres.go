package testbed

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
)

// queryTimeout bounds what is done on one connection to a database.
const queryTimeout = 30 * time.Second

// Query calls ask with a connection to the database at address, which it closes.
func Query(ctx context.Context, address string, ask func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	return errors.Join(ask(ctx, conn), conn.Close(ctx))
}

// CreateDatabase makes a database on the server at address and returns its URL: a copy of
// template, or an empty one where that is "". The names are not quoted.
func CreateDatabase(ctx context.Context, address, name, template string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	statement := "CREATE DATABASE " + name
	if template != "" {
		statement += " TEMPLATE " + template
	}
	return u.String(), Query(ctx, address, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement)
		return err
	})
}

// CountLinks is how many rows the table of links has in the database at address.
func CountLinks(ctx context.Context, address string) (rows int64, err error) {
	err = Query(ctx, address, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT count(*) FROM links`).Scan(&rows)
	})
	return rows, err
}
