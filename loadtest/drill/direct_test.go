//go:build drill

package drill

import (
	"context"
	"net"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// redisClient is for the drill itself. It does not repeat commands.
func redisClient(t testing.TB, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// portOf is the port of an address.
func portOf(t testing.TB, addr string) uint16 {
	t.Helper()
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(port)
}

// execute runs a statement on a connection of its own.
func execute(d *drill, url, sql string) {
	d.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		d.Fatal(err)
	}
	if _, err := postgresConn(d, cfg).Exec(d.Context(), sql); err != nil {
		d.Fatalf("%s: %v", sql, err)
	}
}

// postgresConn connects; the connection is closed when the test ends.
func postgresConn(t testing.TB, cfg *pgx.ConnConfig) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) }) // it may be broken, on purpose
	return conn
}
