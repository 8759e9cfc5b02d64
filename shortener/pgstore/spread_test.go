package pgstore

import (
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"keypool/internal/testenv"
	"keypool/migrations"
	"keypool/shortener"
	"keypool/shortener/storetest"
)

// distributed returns connections to the coordinator of a cluster, with a schema whose tables of links are distributed.
func distributed(t *testing.T, cluster *testenv.Cluster) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), cluster.Schema(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	storetest.MigratePostgres(t, pool)
	db := stdlib.OpenDBFromPool(pool)
	n, err := migrations.Distribute(t.Context(), db, 4)
	if err := errors.Join(err, db.Close()); err != nil || n == 0 {
		t.Fatalf("distributed %d tables: %v", n, err)
	}
	return pool
}

func TestCoordinatorFollowsContract(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCitus(t, 2, "fsync=off", "max_connections=1000")
	var one sync.Mutex // Citus allows one transaction at a time to distribute tables
	storetest.Run(t, func(t *testing.T, order shortener.Order) shortener.Store {
		one.Lock()
		defer one.Unlock()
		return New(distributed(t, cluster), order)
	})
}
