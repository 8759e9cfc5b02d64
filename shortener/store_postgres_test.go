package shortener

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/internal/testenv"
)

// TestPostgresErrors has a trigger fail with the SQLSTATE that a link's code names.
func TestPostgresErrors(t *testing.T) {
	t.Parallel()
	s := openPostgres(t)
	_, err := s.pool.Exec(t.Context(), `
		CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN RAISE EXCEPTION 'as told' USING ERRCODE = new.code; END $$;
		CREATE TRIGGER fail BEFORE INSERT ON links FOR EACH ROW WHEN (new.code ~ '^[0-9A-Z]{5}$') EXECUTE FUNCTION fail()`)
	if err != nil {
		t.Fatal(err)
	}
	for state, want := range map[string][]error{
		"53100": {ErrNotWritten, ErrStoreFull},
		"53200": {ErrNotWritten},
		"40P01": {ErrNotWritten},
		"25006": {ErrNotWritten},
		"22021": {ErrNotWritten, ErrRefused},
		"23514": {ErrNotWritten, ErrRefused},
		"54000": {ErrNotWritten, ErrRefused},
		"57014": {}, // cancelled, perhaps after the commit
		"08006": {}, // some other server was lost
		"40003": {},
	} {
		_, err := s.Insert(t.Context(), []Link{keyLink("good"), keyLink(state)})
		if err == nil {
			t.Errorf("%s: no error", state)
		}
		for _, sentinel := range []error{ErrNotWritten, ErrStoreFull, ErrRefused} {
			wanted := slices.Contains(want, sentinel)
			if errors.Is(err, sentinel) != wanted {
				t.Errorf("%s: %q wrapped: %t", state, sentinel, !wanted)
			}
		}
	}
	poisoned := keyLink("nul")
	poisoned.URL += "\x00"
	if _, err := s.Insert(t.Context(), []Link{poisoned}); !errors.Is(err, ErrRefused) {
		t.Errorf("a NUL byte: %v", err)
	}
	wantOutcomes(t, insert(t, s, keyLink("good")), Inserted)
}

// TestPostgresDemoted has a pool whose first connections lead to a server that has
// become read-only, as after a failover. They are dropped at the first refusal.
func TestPostgresDemoted(t *testing.T) {
	t.Parallel()
	migrated := openPostgres(t)
	var demoted atomic.Bool
	config := migrated.pool.Config()
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if !demoted.Load() {
			return nil
		}
		_, err := conn.Exec(ctx, "SET default_transaction_read_only = on")
		return err
	}
	open := func() *PostgresStore {
		pool, err := pgxpool.NewWithConfig(t.Context(), config.Copy())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		demoted.Store(true)
		if _, err := pool.Exec(t.Context(), "SELECT"); err != nil {
			t.Fatal(err)
		}
		demoted.Store(false)
		return NewPostgresStore(pool)
	}
	for name, meet := range map[string]func(*PostgresStore) error{
		"insert": func(s *PostgresStore) error {
			_, err := s.Insert(t.Context(), []Link{keyLink("insert")})
			if err != nil && !errors.Is(err, ErrNotWritten) {
				t.Errorf("refused, but %v", err)
			}
			return err
		},
		"delete": func(s *PostgresStore) error { return s.Delete(t.Context(), "insert", testMoment) },
		"ping":   func(s *PostgresStore) error { return s.Ping(t.Context()) },
	} {
		s := open()
		if err := meet(s); err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("%s: a read-only server did it: %v", name, err)
		}
		if err := meet(s); err != nil && !errors.Is(err, ErrNotFound) {
			t.Errorf("%s again: %v", name, err)
		}
	}
}

// TestPostgresLostReply cuts the connection when the reply to a commit is on its way.
func TestPostgresLostReply(t *testing.T) {
	t.Parallel()
	s, cut := openThroughProxy(t)
	insert(t, s, keyLink("warm")) // so that the next Insert is one exchange
	link := keyLink("once")

	cut.Store(true)
	_, err := s.Insert(t.Context(), []Link{link})
	if err == nil || errors.Is(err, ErrNotWritten) {
		t.Fatalf("the reply was lost, Insert says %v", err)
	}
	wantLink(t, s, link)
	wantOutcomes(t, insert(t, s, link, keyLink("new")), Present, Inserted)

	var rows int
	if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM links WHERE code = 'once'").Scan(&rows); err != nil || rows != 1 {
		t.Fatalf("%d rows, %v", rows, err)
	}
}

// TestCommitterLostReply is the same seen by a creation: it does not notice.
func TestCommitterLostReply(t *testing.T) {
	t.Parallel()
	s, cut := openThroughProxy(t)
	c := startCommitter(t, s, 0)
	insert(t, s, keyLink("warm"))
	cut.Store(true)
	if outcome, err := c.commit(t.Context(), keyLink("once")); outcome != Inserted || err != nil {
		t.Fatalf("outcome %v, %v", outcome, err)
	}
	if cut.Load() {
		t.Fatal("nothing was cut")
	}
}

func TestPostgresAway(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	pool, err := pgxpool.New(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	migratePostgres(t, pool)
	s := NewPostgresStore(pool)
	insert(t, s, keyLink("acknowledged"))
	server.Kill()
	pool.Reset() // what a dead connection says is left to the test of the lost reply
	if _, err := s.Insert(t.Context(), []Link{keyLink("refused")}); !errors.Is(err, ErrNotWritten) {
		t.Fatalf("Insert without a server: %v", err)
	}
	if _, err := s.Lookup(t.Context(), "refused"); err == nil || errors.Is(err, ErrNotFound) {
		t.Fatalf("Lookup without a server: %v", err)
	}
	server.Restart()
	wantLink(t, s, keyLink("acknowledged"))
	wantOutcomes(t, insert(t, s, keyLink("refused")), Inserted)
}

// openThroughProxy opens a store whose connections pass a proxy. Setting cut makes it
// close the next connection on which the server replies, instead of passing that on.
func openThroughProxy(t *testing.T) (_ *PostgresStore, cut *atomic.Bool) {
	t.Helper()
	target, err := url.Parse(testenv.PostgresURL(t))
	if err != nil {
		t.Fatal("the URL of Postgres cannot be parsed")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cut = new(atomic.Bool)
	var proxying sync.WaitGroup
	proxying.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			proxying.Go(func() { proxy(t, client, target.Host, cut) })
		}
	})
	proxied := *target
	proxied.Host = listener.Addr().String()
	pool, err := pgxpool.New(t.Context(), proxied.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pool.Close()
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		proxying.Wait()
	})
	migratePostgres(t, pool)
	return NewPostgresStore(pool), cut
}

// proxy carries one connection until either side or cut ends it.
func proxy(t *testing.T, client net.Conn, address string, cut *atomic.Bool) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer server.Close()
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() {
		_, _ = io.Copy(server, client) // ends when either side closes
		_ = server.Close()
	})
	reply := make([]byte, 1<<16)
	for {
		n, err := server.Read(reply)
		if err != nil || cut.CompareAndSwap(true, false) {
			_ = client.Close()
			return
		}
		if _, err := client.Write(reply[:n]); err != nil {
			return
		}
	}
}
