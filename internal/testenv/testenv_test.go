package testenv_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestEachTestHasSeparateData checks that a test starts without data and then reads only its own data, even
// if another test writes the same names.
func TestEachTestHasSeparateData(t *testing.T) {
	t.Parallel()
	pools := []*pgxpool.Pool{testenv.Postgres(t), testenv.Postgres(t)}
	clients := []*redis.Client{testenv.Redis(t), testenv.Redis(t)}
	for i := range 2 {
		if n := clients[i].DBSize(t.Context()).Val(); n != 0 {
			t.Errorf("Redis contains %d keys before the test, want 0", n)
		}
		if err := clients[i].Set(t.Context(), "key", i, 0).Err(); err != nil {
			t.Error(err)
		}
		if _, err := pools[i].Exec(t.Context(), "CREATE TABLE links AS SELECT $1::int AS n", i); err != nil {
			t.Error(err)
		}
	}
	for i := range 2 {
		if n, err := clients[i].Get(t.Context(), "key").Int(); n != i || err != nil {
			t.Errorf("Redis gives %d, %v; want %d", n, err, i)
		}
		var n int
		if err := pools[i].QueryRow(t.Context(), "SELECT n FROM links").Scan(&n); n != i || err != nil {
			t.Errorf("Postgres gives %d, %v; want %d", n, err, i)
		}
	}
}

func TestSchemaIsDroppedWhenTestEnds(t *testing.T) {
	t.Parallel()
	var schema string
	t.Run("create a table", func(t *testing.T) {
		pool := testenv.Postgres(t)
		if err := pool.QueryRow(t.Context(), "SELECT current_schema()").Scan(&schema); err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(t.Context(), "CREATE TABLE links ()"); err != nil {
			t.Fatal(err)
		}
	})
	if !strings.HasPrefix(schema, "test_") {
		t.Fatalf("the test's schema was %q", schema)
	}
	var n int
	err := testenv.Postgres(t).QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname = $1", schema).Scan(&n)
	if n != 0 || err != nil {
		t.Errorf("schema %s still exists (count %d, error %v)", schema, n, err)
	}
}

func TestRedisKeepsAcknowledgedWritesAfterKill(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := testenv.StartedClient(t, server)
	if err := client.Set(t.Context(), "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("a killed server answers")
	}
	server.Restart()
	if err := client.Get(t.Context(), "key").Err(); err != nil {
		t.Errorf("an acknowledged write is gone after a kill: %v", err)
	}
	server.Pause()
	server.Resume()
	server.Stop()
}
