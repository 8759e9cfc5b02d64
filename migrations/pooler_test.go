package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"keypool/internal/testenv"
	"keypool/migrations"
)

// In transaction mode, PgBouncer may give a connection to another client after each transaction. A session-level lock
// would stay with the connection. The lock of Exclusive must exclude other processes nevertheless.
func TestMigrationLockExcludesOtherProcessesBehindPgBouncer(t *testing.T) {
	t.Parallel()
	bouncer := testenv.StartPgBouncer(t, testenv.StartPostgres(t))
	open := func() *sql.DB {
		db, err := sql.Open("pgx", bouncer.URL+"&default_query_exec_mode=exec")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeDB(t, db.Close) })
		return db
	}
	one, other := open(), open()
	for range 10 {
		err := migrations.Exclusive(t.Context(), one, migrations.PostgreSQL, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			err := migrations.Exclusive(ctx, other, migrations.PostgreSQL, func() error { return errors.New("two processes have the lock") })
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Exclusive while another call has the lock: %v, want a timeout", err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		one, other = other, one
	}
}
