package reorder

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"keypool/internal/testenv"
	"keypool/shortener"
	"keypool/shortener/pgstore"
	"keypool/shortener/sqlitestore"
	"keypool/shortener/storetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// engine is an empty database with the latest schema.
type engine struct {
	Database
	store  func(shortener.Order) shortener.Store
	moment func(time.Time) any // converts a time to the value of a column
}

// onEngines runs test on an empty database of each engine.
func onEngines(t *testing.T, test func(*testing.T, engine)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db := storetest.SQLite(t)
		test(t, engine{SQLite(db.Write), func(o shortener.Order) shortener.Store { return sqlitestore.New(db, o) }, func(at time.Time) any { return at.UnixMicro() }})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		pool := storetest.Postgres(t)
		db := stdlib.OpenDBFromPool(pool)
		t.Cleanup(func() { db.Close() })
		test(t, engine{Postgres(db), func(o shortener.Order) shortener.Store { return pgstore.New(pool, o) }, func(at time.Time) any { return at }})
	})
}

func (e engine) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := e.db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

// plantEarlier inserts links into links_earlier, as the migration to version 7 leaves them. It returns
// these links.
func (e engine) plantEarlier(t *testing.T, rows int) []shortener.Link {
	t.Helper()
	links := make([]shortener.Link, rows)
	tx, err := e.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range links {
		l := storetest.Link(fmt.Sprintf("%07d", i*7919%10_000_000))
		var expires, deleted any
		switch i % 5 {
		case 1: // a code without a rank
			l.Code, l.Source = fmt.Sprintf("alias-%d", i), shortener.SourceAlias
		case 2: // a code that is too long for a rank
			l.Code = strings.Repeat("z", 15) + l.Code
		case 3:
			l.ExpiresAt = storetest.Moment().UTC().Add(time.Duration(i) * time.Hour)
			expires = e.moment(l.ExpiresAt)
		case 4:
			l.DeletedAt = storetest.Moment().UTC().Add(time.Duration(i) * time.Minute)
			deleted = e.moment(l.DeletedAt)
		}
		links[i] = l
		_, err := tx.ExecContext(t.Context(), `INSERT INTO links_earlier (code, url, source, created_at, expires_at, deleted_at) VALUES ($1, $2, $3, $4, $5, $6)`,
			l.Code, l.URL, l.Source, e.moment(l.CreatedAt), expires, deleted)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return links
}

func record(t *testing.T, e engine, order shortener.Order) {
	t.Helper()
	if got, err := e.Record(t.Context(), order.Fingerprint()); err != nil || got != order.Fingerprint() {
		t.Fatalf("Record: %q, %v", got, err)
	}
}

func wantPending(t *testing.T, e engine, want bool) {
	t.Helper()
	if got, err := e.Pending(t.Context()); err != nil || got != want {
		t.Errorf("Pending: %v, %v; want %v", got, err, want)
	}
}

// Every link is the same before and after Move, although each call of Move is interrupted after its
// first transaction.
func TestMoveKeepsEveryLink(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		links := e.plantEarlier(t, 2*pageRows+1)
		order := storetest.Reversed()
		record(t, e, order)
		wantPending(t, e, true)
		var calls int
		var last int64
		for e.pending(t) {
			ctx, interrupt := context.WithCancel(t.Context())
			err := e.Move(ctx, order, func(moved, total int64) {
				calls++
				if moved <= last || total != int64(len(links)) {
					t.Errorf("the progress is %d of %d after a progress of %d of %d", moved, total, last, len(links))
				}
				last = moved
				interrupt()
			})
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			interrupt()
		}
		if calls < 3 || last != int64(len(links)) {
			t.Errorf("%d links were moved in %d transactions, want %d links in at least 3", last, calls, len(links))
		}
		if err := e.Move(t.Context(), order, func(int64, int64) { t.Error("links were moved again") }); err != nil {
			t.Fatal(err)
		}
		wantPending(t, e, false)
		store := e.store(order)
		for _, want := range links {
			storetest.WantLink(t, store, want)
		}
		rows := 0
		for _, err := range store.All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			rows++
		}
		if rows != len(links) {
			t.Errorf("the tables have %d links, want %d", rows, len(links))
		}
	})
}

func (e engine) pending(t *testing.T) bool {
	t.Helper()
	pending, err := e.Pending(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pending
}

// If Move moved links into another order than the order on record, no look-up would find them.
func TestMoveOfLinksRefusesOrderThatIsNotOnRecord(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		e.plantEarlier(t, 10)
		record(t, e, storetest.Plain())
		if recorded, err := e.Record(t.Context(), storetest.Reversed().Fingerprint()); err != nil || recorded != "plain" {
			t.Errorf("Record of a second order: %q, %v; want the first order", recorded, err)
		}
		for _, order := range []shortener.Order{storetest.Reversed(), nil} {
			err := e.Move(t.Context(), order, func(int64, int64) { t.Error("links were moved") })
			if !errors.Is(err, shortener.ErrOtherOrder) {
				t.Errorf("Move in the order %v: %v, want ErrOtherOrder", order, err)
			}
		}
		wantPending(t, e, true)
	})
}

// If links_earlier is empty, Move needs no order, and only drops the table.
func TestMoveDropsEmptyTableOfEarlierLinks(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		wantPending(t, e, false)
		for range 2 {
			if err := e.Move(t.Context(), nil, func(int64, int64) { t.Error("links were moved") }); err != nil {
				t.Fatal(err)
			}
		}
		if exists, err := e.Exists(t.Context()); exists || err != nil {
			t.Errorf("the table exists: %v, %v", exists, err)
		}
		if recorded, err := e.Recorded(t.Context()); recorded != "" || err != nil {
			t.Errorf("Recorded: %q, %v; want no order", recorded, err)
		}
	})
}

// On SQLite, Move does not read the links if the table creations has rows. With 10 million links, a sort of all links
// would take most of the time that a start may take.
func TestMoveReadsNoLinksIfCreationsAreRecorded(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	e := engine{Database: SQLite(db.Write)}
	e.exec(t, `INSERT INTO creations (codes) VALUES ('code')`)
	e.exec(t, `DROP VIEW all_links`) // a statement that reads the links now fails
	if err := e.Move(t.Context(), nil, func(int64, int64) { t.Error("links were moved") }); err != nil {
		t.Fatal(err)
	}
	if exists, err := e.Exists(t.Context()); exists || err != nil {
		t.Errorf("the table exists: %v, %v", exists, err)
	}
}

// begin calls Begin for a database that no program uses.
func (e engine) begin(t *testing.T, order shortener.Order) {
	t.Helper()
	unused := func(context.Context, *sql.Tx) error { return nil }
	if err := e.Begin(t.Context(), order.Fingerprint(), unused); err != nil {
		t.Fatal(err)
	}
}

// A page without rows does not end Move. In PostgreSQL, a page is a number of blocks, and all these
// blocks may be empty.
func TestMoveSkipsEmptyPages(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		links := e.plantEarlier(t, 2*pageRows)
		e.exec(t, `DELETE FROM links_earlier WHERE code NOT IN ($1, $2)`, links[0].Code, links[2*pageRows-1].Code)
		record(t, e, storetest.Plain())
		if err := e.Move(t.Context(), storetest.Plain(), func(int64, int64) {}); err != nil {
			t.Fatal(err)
		}
		store := e.store(storetest.Plain())
		storetest.WantLink(t, store, links[0])
		storetest.WantLink(t, store, links[2*pageRows-1])
	})
}

// Begin changes nothing if a program uses the links.
func TestBeginOfReorderingFailsWhileProgramUsesLinks(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		record(t, e, storetest.Plain())
		storetest.Insert(t, e.store(storetest.Plain()), storetest.Link("kept00"))
		errInUse := errors.New("in use")
		err := e.Begin(t.Context(), storetest.Reversed().Fingerprint(), func(context.Context, *sql.Tx) error { return errInUse })
		if !errors.Is(err, errInUse) {
			t.Errorf("Begin: %v, want errInUse", err)
		}
		wantPending(t, e, false)
		storetest.WantLink(t, e.store(storetest.Plain()), storetest.Link("kept00"))
	})
}

// The isolation level does not depend on the default of the database. At the level repeatable read, the function
// lock that Begin calls would not find a program that started while lock waited.
func TestBeginOfReorderingUsesReadCommittedIsolation(t *testing.T) {
	t.Parallel()
	db := stdlib.OpenDBFromPool(storetest.RepeatableRead(t))
	t.Cleanup(func() { db.Close() })
	var level string
	err := Postgres(db).Begin(t.Context(), storetest.Plain().Fingerprint(), func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SHOW transaction_isolation`).Scan(&level)
	})
	if level != "read committed" || err != nil {
		t.Errorf("the isolation level is %q, error %v; want read committed", level, err)
	}
}

// Two programs may reorder the links at the same time if one of them has lost its lock. The call of Begin that commits last
// must find what the other call has committed.
func TestBeginKeepsLinksOfConcurrentReordering(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]string{"same order": "new", "another order": "other"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := storetest.Postgres(t)
			db := stdlib.OpenDBFromPool(pool)
			t.Cleanup(func() { db.Close() })
			e := engine{Database: Postgres(db), store: func(o shortener.Order) shortener.Store { return pgstore.New(pool, o) }}
			record(t, e, storetest.Plain())
			storetest.Insert(t, e.store(storetest.Plain()), storetest.Link("0000001"))
			unlocked := func(context.Context, *sql.Tx) error { return nil }
			err := e.Begin(t.Context(), "new", func(ctx context.Context, _ *sql.Tx) error { return e.Begin(ctx, other, unlocked) })
			if err != nil {
				t.Fatal(err)
			}
			wantPending(t, e, true)
			if recorded, err := e.Recorded(t.Context()); recorded != "new" || err != nil {
				t.Errorf("the order on record is %q, error %v; want new", recorded, err)
			}
		})
	}
}

// Disown changes the Source of links in links_earlier and in the new tables.
func TestDisownChangesSourceOfLinksInEveryTable(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		links := e.plantEarlier(t, 10)
		record(t, e, storetest.Plain())
		made := storetest.Link("made00")
		storetest.Insert(t, e.store(storetest.Plain()), made)
		tx, err := e.db.BeginTx(t.Context(), nil)
		if err == nil {
			err = errors.Join(e.Disown(t.Context(), tx, made.Source, "ledger"), tx.Commit())
		}
		if err == nil {
			err = e.Move(t.Context(), storetest.Plain(), func(int64, int64) {})
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range append(links, made) {
			if want.Source == made.Source {
				want.Source = shortener.SourceFormer
			}
			storetest.WantLink(t, e.store(storetest.Plain()), want)
		}
	})
}

// Begin and Move change the order of the links, and every link stays the same. After an interrupted Move, Begin can
// choose another order.
func TestReorderingKeepsEachLink(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		links := e.plantEarlier(t, pageRows+10)
		record(t, e, storetest.Plain())
		move := func(order shortener.Order) error {
			return e.Move(t.Context(), order, func(int64, int64) {})
		}
		check := func(order shortener.Order) {
			t.Helper()
			store := e.store(order)
			for _, want := range links {
				storetest.WantLink(t, store, want)
			}
			if n := countListed(t, store); n != len(links) {
				t.Errorf("%d links are listed, want %d", n, len(links))
			}
		}
		if err := move(storetest.Plain()); err != nil {
			t.Fatal(err)
		}
		check(storetest.Plain())
		links = append(links, storetest.Owned("owned0", 7))
		storetest.Insert(t, e.store(storetest.Plain()), links[len(links)-1])
		e.begin(t, storetest.Plain())
		wantPending(t, e, false) // the order is the same
		e.begin(t, storetest.Reversed())
		ctx, interrupt := context.WithCancel(t.Context())
		err := e.Move(ctx, storetest.Reversed(), func(int64, int64) { interrupt() })
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		for _, order := range []shortener.Order{storetest.Plain(), storetest.Reversed()} {
			e.begin(t, order)
			wantPending(t, e, true)
		}
		if err := move(storetest.Reversed()); err != nil {
			t.Fatal(err)
		}
		check(storetest.Reversed())
	})
}

// countListed returns the number of links that the store lists.
func countListed(t *testing.T, s shortener.Store) (n int) {
	t.Helper()
	for from := ""; ; {
		links, next, err := s.Newest(t.Context(), shortener.Selection{From: from, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if n += len(links); next == "" {
			return n
		}
		from = next
	}
}

// If links_earlier exists and is empty, Begin keeps all links.
func TestReorderingKeepsLinksIfTableOfEarlierLinksIsEmpty(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		record(t, e, storetest.Plain())
		storetest.Insert(t, e.store(storetest.Plain()), storetest.Link("kept00"))
		e.begin(t, storetest.Reversed())
		if err := e.Move(t.Context(), storetest.Reversed(), func(int64, int64) {}); err != nil {
			t.Fatal(err)
		}
		storetest.WantLink(t, e.store(storetest.Reversed()), storetest.Link("kept00"))
	})
}

// If a row is removed from links_earlier during Move, Move fails and keeps the table.
func TestMoveFailsIfRowsDisappear(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		links := e.plantEarlier(t, 2*pageRows)
		record(t, e, storetest.Plain())
		err := e.Move(t.Context(), storetest.Plain(), func(moved, total int64) {
			if moved < total {
				e.exec(t, `DELETE FROM links_earlier WHERE code = $1`, links[len(links)-1].Code)
			}
		})
		if !errors.Is(err, errChanged) {
			t.Errorf("Move: %v, want errChanged", err)
		}
		wantPending(t, e, true)
	})
}

// A program of an earlier release may still run after the migration. Its SQL statements must fail. If they succeeded, the
// links of the program would be lost.
func TestSchemaRefusesSQLStatementsOfEarlierReleases(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		for _, statement := range []string{
			`INSERT INTO links (code, url, source, created_at, expires_at) VALUES ('a', 'b', 'c', NULL, NULL) ON CONFLICT (code) DO NOTHING`,
			`UPDATE links SET deleted_at = NULL WHERE code = 'a'`,
			`SELECT url FROM links WHERE code = 'a'`,
		} {
			if _, err := e.db.ExecContext(t.Context(), statement); err == nil || errors.Is(err, sql.ErrNoRows) {
				t.Errorf("%s: %v, want an error", statement, err)
			}
		}
	})
}

// While a program calls Pending, another program may drop the empty table. Then Pending must return false.
func TestMoveOfLinksIsNotPendingWhileTableOfEarlierLinksIsDropped(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		e.exec(t, `DROP TABLE links_earlier`)
		for range 100 {
			e.exec(t, `CREATE TABLE links_earlier (code text)`)
			dropped := make(chan error, 1)
			go func() {
				_, err := e.db.ExecContext(t.Context(), `DROP TABLE links_earlier`)
				dropped <- err
			}()
			if pending, err := e.Pending(t.Context()); pending || err != nil {
				t.Errorf("Pending: %v, %v; want false", pending, err)
			}
			if err := <-dropped; err != nil {
				t.Fatal(err)
			}
		}
	})
}

// The ledger may be replaced after an interrupted Move. The UPDATE of Disown changes the positions of
// the rows in PostgreSQL, so the next Move must begin again.
func TestMoveKeepsEveryLinkIfLedgerIsReplacedAfterInterruption(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		links := e.plantEarlier(t, 2*pageRows)
		record(t, e, storetest.Plain())
		ctx, interrupt := context.WithCancel(t.Context())
		err := e.Move(ctx, storetest.Plain(), func(int64, int64) { interrupt() })
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		tx, err := e.db.BeginTx(t.Context(), nil)
		if err == nil {
			err = errors.Join(e.Disown(t.Context(), tx, links[0].Source), tx.Commit())
		}
		if err == nil {
			err = e.Move(t.Context(), storetest.Plain(), func(int64, int64) {})
		}
		if err != nil {
			t.Fatal(err)
		}
		store := e.store(storetest.Plain())
		for _, want := range links {
			if want.Source == links[0].Source {
				want.Source = shortener.SourceFormer
			}
			storetest.WantLink(t, store, want)
		}
	})
}

// A store that was opened before the order of the links changed must insert nothing. If it inserted rows, no
// look-up would find them, and a second link could get the same code.
func TestStoreWithFormerOrderOfLinksInsertsNothing(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		record(t, e, storetest.Plain())
		former := e.store(storetest.Plain())
		taken := storetest.Link("alias00")
		storetest.Insert(t, former, taken)
		once := storetest.Owned("owned00", 7)
		once.IdempotencyKey = &shortener.IdempotencyKey{Owner: 7, Key: "a-key-of-16-chars"}
		e.begin(t, storetest.Reversed())
		for name, links := range map[string][]shortener.Link{
			"code in use": {storetest.Link("alias00")},
			"new codes":   {storetest.Link("new0000"), storetest.Link("no-rank"), storetest.Owned("owned01", 7)},
			"key":         {once},
		} {
			for range 2 { // after the first attempt, pgstore uses statements with ON CONFLICT
				if outcomes, err := former.Insert(t.Context(), links); !errors.Is(err, shortener.ErrOtherOrder) {
					t.Errorf("Insert of %s during the move: outcomes %v, error %v; want ErrOtherOrder", name, outcomes, err)
				}
			}
		}
		if err := e.Move(t.Context(), storetest.Reversed(), func(int64, int64) {}); err != nil {
			t.Fatal(err)
		}
		if _, err := former.Insert(t.Context(), []shortener.Link{storetest.Link("new0000")}); !errors.Is(err, shortener.ErrOtherOrder) {
			t.Errorf("Insert after the move: %v, want ErrOtherOrder", err)
		}
		var rows int
		for row, err := range e.store(storetest.Reversed()).All(t.Context()) {
			if err != nil || row.Code != taken.Code {
				t.Errorf("row %+v, error %v", row, err)
			}
			rows++
		}
		if rows != 1 {
			t.Errorf("the database has %d links, want 1", rows)
		}
	})
}

// Without the record of the order, no program can find the links. Begin and Move repair the database.
func TestRecordFailsIfDatabaseHasLinksWithoutRecordedOrder(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		record(t, e, storetest.Plain())
		link := storetest.Link("alias00")
		storetest.Insert(t, e.store(storetest.Plain()), link)
		e.exec(t, `DELETE FROM link_order`)
		if got, err := e.Recorded(t.Context()); !errors.Is(err, ErrUnrecorded) {
			t.Errorf("Recorded: %q, %v; want ErrUnrecorded", got, err)
		}
		if got, err := e.Record(t.Context(), storetest.Reversed().Fingerprint()); !errors.Is(err, ErrUnrecorded) {
			t.Errorf("Record: %q, %v; want ErrUnrecorded", got, err)
		}
		e.begin(t, storetest.Reversed())
		if err := e.Move(t.Context(), storetest.Reversed(), func(int64, int64) {}); err != nil {
			t.Fatal(err)
		}
		storetest.WantLink(t, e.store(storetest.Reversed()), link)
	})
}

// While a transaction uses the links, for example the transaction of a suspended process, Begin fails after a few seconds.
func TestBeginFailsWhileTransactionUsesLinks(t *testing.T) {
	t.Parallel()
	pool := storetest.Postgres(t)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { db.Close() })
	d := Postgres(db)
	if _, err := d.Record(t.Context(), storetest.Plain().Fingerprint()); err != nil {
		t.Fatal(err)
	}
	storetest.Insert(t, pgstore.New(pool, storetest.Plain()), storetest.Link("held00"))
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `UPDATE ranked_links SET url = url`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err = d.Begin(ctx, storetest.Reversed().Fingerprint(), func(context.Context, *sql.Tx) error { return nil })
	if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "another transaction may be using") {
		t.Errorf("Begin while a transaction uses the links: %v, want an error that says so", err)
	}
}
