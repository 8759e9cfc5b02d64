package pgstore

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/internal/testenv"
	"keypool/shortener/storetest"
)

// TestReadOfOldestLinksContinuesAfterPauseBeyondTCPUserTimeout sets tcp_user_timeout on each connection. The caller of Oldest pauses
// after the first link, until the server has ended another connection whose client also reads nothing. Each connection has
// a small receive buffer, so the server can send all links only while the client reads.
func TestReadOfOldestLinksContinuesAfterPauseBeyondTCPUserTimeout(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(testenv.StartPostgres(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if tcp, ok := conn.(*net.TCPConn); ok {
			err = tcp.SetReadBuffer(32 << 10)
		}
		return conn, err
	}
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SET tcp_user_timeout = 500`)
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	storetest.MigratePostgres(t, pool)
	const links = 3000
	_, err = pool.Exec(t.Context(), `INSERT INTO unranked_links (code, url, source, created_at)
		SELECT 'link-' || n, 'https://example.com/' || repeat('x', 1000), 'alias', now() FROM generate_series(1, $1::int) AS n`, links)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	read := 0
	for _, err := range New(pool, storetest.Plain()).Oldest(ctx) {
		if err != nil {
			t.Fatalf("after %d of %d links: %v", read, links, err)
		}
		if read++; read == 1 {
			waitForEndOfOtherConnection(ctx, t, pool)
		}
	}
	if read != links {
		t.Errorf("Oldest yields %d links, want %d", read, links)
	}
}

// After Oldest has yielded all links, the pool uses the connection again.
func TestReadOfOldestLinksReturnsConnectionToPool(t *testing.T) {
	t.Parallel()
	s := New(storetest.Postgres(t), storetest.Plain())
	storetest.Insert(t, s, storetest.Link("link00"))
	before := s.pool.Stat().NewConnsCount()
	for range s.Writers() + 1 { // more often than the pool has connections
		for _, err := range s.Oldest(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if after := s.pool.Stat().NewConnsCount(); after != before {
		t.Errorf("the pool has opened %d connections, want %d", after, before)
	}
}

// waitForEndOfOtherConnection reads the first row of a large result on a new connection, and then waits until the server has
// ended this connection. Until then, the server process of this connection holds an advisory lock, for which the pool waits.
func waitForEndOfOtherConnection(ctx context.Context, t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	other, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Exec(ctx, `SET tcp_user_timeout = 500; SELECT pg_advisory_lock(1)`)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := other.Query(ctx, `SELECT url FROM unranked_links`)
	if err != nil || !rows.Next() {
		t.Fatalf("read the first row: %v", err)
	}
	if _, err := pool.Exec(ctx, `SELECT pg_advisory_lock(1)`); err != nil {
		t.Fatalf("wait for the end of the other connection: %v", err)
	}
	rows.Close()
	_ = other.Close(ctx)
}
