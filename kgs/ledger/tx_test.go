package ledger_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

// Processes change the ledger at the same time, and the default isolation level of the database is repeatable read. No
// change may fail.
func TestConcurrentChangesSucceedOnDatabaseWithRepeatableRead(t *testing.T) {
	t.Parallel()
	tables := kgstest.NewKeyTables(t)
	config := tables.DB.Config()
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	l := ledger.NewPostgres(pool)
	kgstest.CloseAfter(t, l.Close)
	if _, err := l.Open(t.Context(), ledger.Config{}); err != nil {
		t.Fatal(err)
	}
	kgstest.InParallel(t, func(i int) (ledger.Reservation, error) {
		return l.Reserve(t.Context(), fmt.Sprint("holder ", i), ledger.StateBatch, 3, 10)
	})
	if n := tables.Count(`SELECT CAST(max(next) AS integer) FROM kgs_spaces`); n != 160 {
		t.Errorf("%d numbers are reserved, want 160", n)
	}
	tables.Exec(`DELETE FROM kgs_holders`)
	var level string
	err = l.Replace(t.Context(), ledger.Config{}, false, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SHOW transaction_isolation`).Scan(&level)
	})
	if level != "read committed" || err != nil {
		t.Errorf("the isolation level of Replace is %q, error %v; want read committed", level, err)
	}
}
