package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/cmd/internal/config"
	"keypool/internal/testenv"
)

// openPing opens a pool for the database at databaseURL, and pings the database.
func openPing(ctx context.Context, t *testing.T, databaseURL string) error {
	t.Helper()
	var db config.Database
	if err := db.UnmarshalText([]byte(databaseURL)); err != nil {
		t.Fatal(err)
	}
	var c Core
	pool, err := c.NewPool(ctx, db.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	return pool.Ping(ctx)
}

// A pooler may give the session to another program, which must not get the settings of this program.
func TestConnectionToPoolerDoesNotSetKeepalives(t *testing.T) {
	t.Parallel()
	postgres := testenv.StartPostgres(t)
	for name, tt := range map[string]struct{ databaseURL, want string }{
		"direct": {postgres.URL, "25000"},
		"pooler": {testenv.StartPgBouncer(t, postgres).URL, "0"},
	} {
		conn, err := openSession(t, tt.databaseURL, requireDurable)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := conn.QueryRow(t.Context(), `SHOW tcp_user_timeout`).Scan(&got); err != nil || got != tt.want {
			t.Errorf("%s: tcp_user_timeout=%s (error %v), want %s", name, got, err, tt.want)
		}
	}
}

// In another schema, the program would not find its tables and would create new ones.
func TestConnectionFailsIfPoolerIgnoresSearchPath(t *testing.T) {
	t.Parallel()
	postgres := testenv.StartPostgres(t)
	pooler := testenv.StartPgBouncer(t, postgres).URL
	assert := func(databaseURL string, want error) {
		t.Helper()
		if err := openPing(t.Context(), t, databaseURL); !errors.Is(err, want) {
			t.Errorf("connection to %s: %v, want %v", databaseURL, err, want)
		}
	}
	const path, options = `&search_path=Links,"public"`, `&options=-csearch_path%3Dlinks`
	assert(postgres.URL+path, nil)
	assert(postgres.URL+options, nil)
	assert(pooler, nil)
	assert(pooler+path, errSearchPath)
	assert(pooler+options, errSearchPath)
	conn, err := openSession(t, postgres.URL, acceptConnection)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `ALTER ROLE postgres SET search_path = Links, "public"`); err != nil {
		t.Fatal(err)
	}
	assert(testenv.StartPgBouncer(t, postgres).URL+path, nil)
}

// After a crash, a busy PostgreSQL opens the connections of all clients at the same time, which can take seconds.
func TestConnectionOpensIfDatabaseNeedsSeconds(t *testing.T) {
	t.Parallel()
	database, err := url.Parse(testenv.StartPostgres(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	query := database.Query()
	query.Set("options", "-cpost_auth_delay=3") // in seconds
	database.RawQuery = query.Encode()
	if err := openPing(t.Context(), t, database.String()); err != nil {
		t.Errorf("a connection that PostgreSQL opens within three seconds: %v", err)
	}
}

func TestHostThatHangsDelaysConnectionOnlyBySeconds(t *testing.T) {
	t.Parallel()
	process, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // the kernel accepts connections, and no process answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Close() }) // the error does not matter, because no test checks it
	for name, first := range map[string]string{"process": process.Addr().String(), "kernel": silentHost(t)} {
		for _, mode := range []string{"disable", "prefer"} {
			t.Run(name+" hangs, sslmode="+mode, func(t *testing.T) {
				t.Parallel()
				database, err := url.Parse(testenv.StartPostgres(t).URL)
				if err != nil {
					t.Fatal(err)
				}
				database.Host = first + "," + database.Host
				query := database.Query()
				query.Set("sslmode", mode)
				database.RawQuery = query.Encode()
				// openPing opens two connections, because the first one finds out whether there is a pooler. If the first
				// host delayed each connection by 10 s, the time limit of a single host, openPing would need more than 15 s.
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				if err := openPing(ctx, t, database.String()); err != nil {
					t.Errorf("a connection to the second host: %v", err)
				}
				if err := checkAnswer(t.Context(), settings(t, database.String()).Database.Postgres.ConnConfig); err != nil {
					t.Errorf("the probe of a database whose second host answers: %v", err)
				}
			})
		}
	}
}

// silentHost returns an address at which the kernel ignores connection requests, because the queue of the listener is full.
func silentHost(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) }) // the error does not matter, because no test checks it
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	local, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", local.(*syscall.SockaddrInet4).Port)
	for range 10 {
		conn, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { _ = conn.Close() }) // the error does not matter, because no test checks it
	}
	t.Fatal("the queue of the listener is not full after ten connections")
	return ""
}

func TestFirstStatementsOfConnectionHaveTimeLimit(t *testing.T) {
	t.Parallel()
	cfg, err := pgxpool.ParseConfig(testenv.StartPostgres(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	ended := make(chan error, 1)
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SELECT pg_sleep(3600)`)
		ended <- err
		return err
	}
	beginConnections(cfg, requireDurable)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Acquire(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire: %v, want %v", err, context.DeadlineExceeded)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the first statement: %v, want %v", err, context.DeadlineExceeded)
		}
	default:
		t.Error("the first statement did not run")
	}
}
