package migrations

import (
	"context"
	"database/sql"
)

// These exports are for the tests in package migrations_test.

func WhenUnlocked(ctx context.Context, f func() error) error { return whenUnlocked(ctx, f) }

func Names(engine Engine) (set map[string]bool, err error) { return names(engine) }

func Relations(ctx context.Context, db *sql.DB, engine Engine) (list []string, err error) {
	return relations(ctx, db, engine)
}
