package server

import (
	"context"

	"keypool/cmd/internal/app"
	"keypool/shortener"
	"keypool/shortener/pgstore"
	"keypool/shortener/sqlitestore"
)

// openStore opens the store of the links in the database of c. In PostgreSQL, the links and the
// ledger have separate connections.
func openStore(ctx context.Context, c *app.Core) (shortener.Store, error) {
	if c.SQLite != nil {
		return sqlitestore.New(c.SQLite), nil
	}
	connections, err := c.OpenPool(ctx, c.Database.Postgres)
	if err != nil {
		return nil, err
	}
	return pgstore.New(connections), nil
}
