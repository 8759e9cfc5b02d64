package pgstore

import (
	"context"
	"errors"
	"fmt"
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
	"keypool/shortener"
	"keypool/shortener/commit"
	"keypool/shortener/service"
	"keypool/shortener/storetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestStoreFollowsContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, order shortener.Order) shortener.Store { return New(storetest.Postgres(t), order) })
}

// A database with the encoding SQL_ASCII stores the bytes of UTF-8, but refuses escape sequences such as \u2028 in jsonb. So
// the store must not send such sequences.
func TestStoreKeepsUnicodeInDatabaseWithEncodingSQLASCII(t *testing.T) {
	t.Parallel()
	const name = "sql_ascii"
	server := testenv.StartPostgres(t)
	admin, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, err = admin.Exec(t.Context(), `CREATE DATABASE `+name+` TEMPLATE template0 LOCALE 'C' ENCODING 'SQL_ASCII'`)
	if err := errors.Join(err, admin.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	config, err := pgxpool.ParseConfig(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.Database = name
	config.ConnConfig.RuntimeParams["client_encoding"] = "UTF8"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	storetest.MigratePostgres(t, pool)
	s := New(pool, storetest.Plain())
	link := storetest.Owned("aaa", 7)
	link.Details.Title += "\u2028\u2029\u00e9"
	storetest.WantOutcomes(t, storetest.Insert(t, s, link), shortener.Inserted)
	if got, err := s.Lookup(t.Context(), link.Code); err != nil || !shortener.Equal(got, link) {
		t.Errorf("Lookup = %+v, %v, want %+v", got, err, link)
	}
}

func TestStoreRefusesDatabaseWithAnotherOrderOfLinks(t *testing.T) {
	t.Parallel()
	pool := storetest.Postgres(t)
	storetest.RefusesOtherOrder(t, New(pool, storetest.Plain()), New(pool, storetest.Reversed()))
}

// A look-up finds the row by the rank of the code. If this row has another code, the look-up fails. The other look-ups
// that share the statement succeed.
func TestOnlyLookupThatFindsWrongRowFails(t *testing.T) {
	t.Parallel()
	s := New(storetest.Postgres(t), storetest.Plain())
	good, bad := storetest.Link("good00"), storetest.Link("bad000")
	storetest.Insert(t, s, good, bad)
	if _, err := s.pool.Exec(t.Context(), `UPDATE ranked_links SET code = 'other0' WHERE code = $1`, bad.Code); err != nil {
		t.Fatal(err)
	}
	found, err := s.find(t.Context(), []string{good.Code, bad.Code, "none00"})
	if err != nil || found[good.Code].link.URL != good.URL || len(found) != 2 {
		t.Errorf("find: %v, %v; want the row of %s and the wrong row", found, err, good.Code)
	}
	if link, err := s.Lookup(t.Context(), bad.Code); !errors.Is(err, shortener.ErrOtherOrder) {
		t.Errorf("Lookup of the wrong row: %v, %v; want ErrOtherOrder", link, err)
	}
}

// If the details of a row cannot be decoded, only the look-up of this row fails. The other look-ups that share the statement
// succeed, whichever look-up runs the statement.
func TestInvalidRowFailsOnlyItsOwnLookup(t *testing.T) {
	t.Parallel()
	s := New(storetest.Postgres(t), storetest.Plain())
	first, bad, last := storetest.Link("first0"), storetest.Link("bad000"), storetest.Link("last00")
	storetest.Insert(t, s, first, bad, last)
	if _, err := s.pool.Exec(t.Context(), `UPDATE ranked_links SET details = '[]' WHERE code = $1`, bad.Code); err != nil {
		t.Fatal(err)
	}
	for leader := range 3 {
		var group []*lookup
		for _, link := range []shortener.Link{first, bad, last} {
			group = append(group, &lookup{code: link.Code, turn: make(chan turn, 1)})
		}
		link, err := s.lookups.lead(t.Context(), group[leader], group)
		group[leader].turn <- turn{link: link, err: err}
		for i, want := range []shortener.Link{first, bad, last} {
			got := <-group[i].turn
			if fails := want.Code == bad.Code; fails != (got.err != nil) || !fails && got.link.URL != want.URL {
				t.Errorf("look-up of %s in a statement of the look-up of %s: %v, %v", want.Code, group[leader].code, got.link, got.err)
			}
		}
	}
	if link, err := s.Lookup(t.Context(), bad.Code); err == nil || errors.Is(err, shortener.ErrNotFound) {
		t.Errorf("Lookup of the row that cannot be decoded: %v, %v; want an error other than ErrNotFound", link, err)
	}
}

// If the details of a row cannot be decoded, the row counts as another link, and the Insert writes the other links of its
// group.
func TestInsertWritesOtherLinksIfRowCannotBeDecoded(t *testing.T) {
	t.Parallel()
	s := New(storetest.Postgres(t), storetest.Plain())
	bad, keyed := storetest.Link("bad000"), storetest.WithIdempotencyKey("bad001", "1", 1)
	storetest.Insert(t, s, bad, keyed)
	if _, err := s.pool.Exec(t.Context(), `UPDATE ranked_links SET details = '[]'`); err != nil {
		t.Fatal(err)
	}
	storetest.WantOutcomes(t, storetest.Insert(t, s, bad, storetest.Link("good00")), shortener.Conflict, shortener.Inserted)
	storetest.WantOutcomes(t, storetest.Insert(t, s, bad, keyed, storetest.Link("good01")), shortener.Conflict, shortener.Repeated, shortener.Inserted)
}

// After a conflict, the next Inserts use ON CONFLICT, so that a further conflict does not roll an Insert back.
func TestInsertsAfterConflictUseOnConflictClause(t *testing.T) {
	t.Parallel()
	s := New(storetest.Postgres(t), storetest.Plain())
	taken := storetest.Link("taken")
	for i := range suspicion + 3 {
		link := storetest.Link(fmt.Sprintf("%06d", i))
		links := []shortener.Link{link}
		want := []shortener.Outcome{shortener.Inserted}
		switch i {
		case 0:
			links, want = append(links, taken), append(want, shortener.Inserted)
		case 1:
			other := taken
			other.URL += "other"
			links, want = append(links, other), append(want, shortener.Conflict)
		}
		storetest.WantOutcomes(t, storetest.Insert(t, s, links...), want...)
		storetest.WantLink(t, s, link)
		if expects := s.suspicious.Load() > 0; expects != (i >= 1 && i <= suspicion) {
			t.Errorf("after Insert %d, the next Insert uses ON CONFLICT: %v, want %v", i, expects, !expects)
		}
	}
	storetest.WantLink(t, s, taken)
}

// TestInsertErrorSaysWhetherRowsMayHaveBeenWritten uses a trigger. The trigger makes the insert of a link fail if the
// code of the link looks like an SQLSTATE, such as 53100. The code is then the SQLSTATE of the error.
func TestInsertErrorSaysWhetherRowsMayHaveBeenWritten(t *testing.T) {
	t.Parallel()
	s := New(storetest.Postgres(t), storetest.Plain())
	_, err := s.pool.Exec(t.Context(), `
		CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN RAISE EXCEPTION 'requested by the test' USING ERRCODE = new.code; END $$;
		CREATE TRIGGER fail BEFORE INSERT ON ranked_links FOR EACH ROW WHEN (new.code ~ '^[0-9A-Z]{5}$') EXECUTE FUNCTION fail()`)
	if err != nil {
		t.Fatal(err)
	}
	for state, want := range map[string][]error{
		"53100": {shortener.ErrNotWritten, shortener.ErrStoreFull},
		"53200": {shortener.ErrNotWritten},
		"40P01": {shortener.ErrNotWritten},
		"25006": {shortener.ErrNotWritten},
		"22021": {shortener.ErrNotWritten, shortener.ErrRefused},
		"23514": {shortener.ErrNotWritten, shortener.ErrRefused},
		"54000": {shortener.ErrNotWritten, shortener.ErrRefused},
		"57014": {}, // the statement was cancelled, possibly after the commit
		"08006": {}, // an error of another server, possibly after the commit
		"40003": {},
	} {
		_, err := s.Insert(t.Context(), []shortener.Link{storetest.Link("good"), storetest.Link(state)})
		if err == nil {
			t.Errorf("Insert with SQLSTATE %s succeeded", state)
		}
		for _, sentinel := range []error{shortener.ErrNotWritten, shortener.ErrStoreFull, shortener.ErrRefused} {
			wanted := slices.Contains(want, sentinel)
			if errors.Is(err, sentinel) != wanted {
				t.Errorf("Insert with SQLSTATE %s: error %v, want an error that wraps exactly %v", state, err, want)
			}
		}
	}
	poisoned := storetest.Link("nul")
	poisoned.URL += "\x00"
	if _, err := s.Insert(t.Context(), []shortener.Link{poisoned}); !errors.Is(err, shortener.ErrRefused) {
		t.Errorf("Insert of a URL with a NUL byte: %v, want ErrRefused", err)
	}
	storetest.WantOutcomes(t, storetest.Insert(t, s, storetest.Link("good")), shortener.Inserted)
}

// TestStoreClosesConnectionsToReadOnlyServer uses a pool whose first connection leads to a server that has
// become read-only, as after a failover. The store must close this connection at the first error.
func TestStoreClosesConnectionsToReadOnlyServer(t *testing.T) {
	t.Parallel()
	migrated := New(storetest.Postgres(t), storetest.Plain())
	var demoted atomic.Bool
	config := migrated.pool.Config()
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if !demoted.Load() {
			return nil
		}
		_, err := conn.Exec(ctx, "SET default_transaction_read_only = on")
		return err
	}
	open := func() *Store {
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
		return New(pool, storetest.Plain())
	}
	storetest.Insert(t, migrated, storetest.Link("changed"))
	for name, call := range map[string]func(*Store) error{
		"insert": func(s *Store) error {
			_, err := s.Insert(t.Context(), []shortener.Link{storetest.Link("insert")})
			if err != nil && !errors.Is(err, shortener.ErrNotWritten) {
				t.Errorf("Insert on a read-only server: %v, want ErrNotWritten", err)
			}
			return err
		},
		"change": func(s *Store) error {
			return s.Change(t.Context(), storetest.Link("changed"), storetest.Deleted(storetest.Link("changed"), storetest.Moment()))
		},
		"ping": func(s *Store) error { return s.Ping(t.Context()) },
	} {
		s := open()
		if err := call(s); err == nil {
			t.Errorf("%s on a read-only server succeeded, want an error", name)
		}
		if err := call(s); err != nil {
			t.Errorf("%s after the first error: %v, want success on a new connection", name, err)
		}
	}
}

// TestRepeatedInsertAfterLostReplyReportsLinkAsPresent loses the reply to an Insert. A repeated Insert must return
// Present.
func TestRepeatedInsertAfterLostReplyReportsLinkAsPresent(t *testing.T) {
	t.Parallel()
	s, cut := openThroughProxy(t)
	storetest.Insert(t, s, storetest.Link("warm")) // prepares the statement, so that the next Insert is a single request and reply
	link := storetest.Link("once")

	cut.Store(true)
	_, err := s.Insert(t.Context(), []shortener.Link{link})
	if err == nil || errors.Is(err, shortener.ErrNotWritten) {
		t.Fatalf("Insert without its reply: %v, want an error of unknown outcome", err)
	}
	storetest.WantLink(t, s, link)
	storetest.WantOutcomes(t, storetest.Insert(t, s, link, storetest.Link("new")), shortener.Present, shortener.Inserted)

	var rows int
	if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM ranked_links WHERE code = 'once'").Scan(&rows); err != nil || rows != 1 {
		t.Fatalf("the table has %d rows with the code, want 1; error %v", rows, err)
	}
}

// TestCreateSucceedsIfReplyToInsertIsLost loses the reply to the Insert of a creation. The group commit must
// repeat the Insert, and the creation must succeed.
func TestCreateSucceedsIfReplyToInsertIsLost(t *testing.T) {
	t.Parallel()
	s, cut := openThroughProxy(t)
	service := service.New(service.Config{Store: s})
	t.Cleanup(func() {
		if err := service.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	storetest.Insert(t, s, storetest.Link("warm"))
	for n := range 20 { // on a busy machine, a creation may reach its time limit
		cut.Store(true)
		alias := fmt.Sprintf("once%d", n)
		link, existing, err := service.Create(t.Context(), shortener.Request{URL: "https://go.dev/", Alias: &alias})
		if errors.Is(err, commit.ErrTooSlow) && n < 19 {
			continue
		}
		if link.Code != alias || existing || err != nil {
			t.Fatalf("Create = %v, %v, %v; want a new link", link, existing, err)
		}
		if cut.Load() {
			t.Fatal("no reply was lost")
		}
		return
	}
}

func TestStoreRecoversAfterServerCrash(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	pool, err := pgxpool.New(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	storetest.MigratePostgres(t, pool)
	s := New(pool, storetest.Plain())
	storetest.Insert(t, s, storetest.Link("acknowledged"))
	server.Kill()
	pool.Reset() // discards the broken connections; TestRepeatedInsertAfterLostReplyReportsLinkAsPresent covers broken connections
	if _, err := s.Insert(t.Context(), []shortener.Link{storetest.Link("refused")}); !errors.Is(err, shortener.ErrNotWritten) {
		t.Fatalf("Insert without a server: %v, want ErrNotWritten", err)
	}
	if _, err := s.Lookup(t.Context(), "refused"); err == nil || errors.Is(err, shortener.ErrNotFound) {
		t.Fatalf("Lookup without a server: %v, want an error other than ErrNotFound", err)
	}
	server.Restart()
	storetest.WantLink(t, s, storetest.Link("acknowledged"))
	storetest.WantOutcomes(t, storetest.Insert(t, s, storetest.Link("refused")), shortener.Inserted)
}

// openThroughProxy returns a store whose connections pass through a proxy. If cut is true, the
// proxy does not forward the next reply of the server. Instead, it closes the connection of this
// reply and sets cut to false.
func openThroughProxy(t *testing.T) (_ *Store, cut *atomic.Bool) {
	t.Helper()
	target, err := url.Parse(testenv.PostgresURL(t))
	if err != nil {
		t.Fatal("parse the URL of the PostgreSQL server")
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
	storetest.MigratePostgres(t, pool)
	return New(pool, storetest.Plain()), cut
}

// proxy forwards one connection until the client, the server or cut ends it.
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

// benchStore returns a store on a new server with full durability.
func benchStore(t testing.TB) shortener.Store {
	pool, err := pgxpool.New(t.Context(), testenv.StartPostgres(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	storetest.MigratePostgres(t, pool)
	return New(pool, storetest.Plain())
}

func BenchmarkInsert(b *testing.B) { storetest.BenchInsert(b, benchStore) }

func BenchmarkLookup(b *testing.B) { storetest.BenchLookup(b, benchStore(b)) }
