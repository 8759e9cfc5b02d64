package shortener

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"pgregory.net/rapid"

	"keypool/internal/sqlite"
	"keypool/internal/testenv"
	"keypool/migrations"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// testMoment has microseconds, and is not in UTC.
var testMoment = time.Date(2026, 3, 4, 5, 6, 7, 891234000, time.FixedZone("", 3600))

func openPostgres(t testing.TB) *PostgresStore {
	t.Helper()
	pool := testenv.Postgres(t)
	migratePostgres(t, pool)
	return NewPostgresStore(pool)
}

func migratePostgres(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	db := stdlib.OpenDBFromPool(pool)
	if err := errors.Join(migrations.Up(t.Context(), db, migrations.PostgreSQL), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func openSQLite(t testing.TB) *SQLiteStore {
	t.Helper()
	path := filepath.Join(t.TempDir(), "links.db")
	return NewSQLiteStore(openSQLiteFile(t, path))
}

func openSQLiteFile(t testing.TB, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := migrations.Up(t.Context(), db.Write, migrations.SQLite); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestPostgresStore(t *testing.T) {
	t.Parallel()
	testStore(t, func(t *testing.T) Store { return openPostgres(t) })
}

func TestSQLiteStore(t *testing.T) {
	t.Parallel()
	testStore(t, func(t *testing.T) Store { return openSQLite(t) })
}

// testStore holds a store to the contract of [Store].
func testStore(t *testing.T, open func(t *testing.T) Store) {
	for name, test := range map[string]func(*testing.T, Store){
		"round trip":        testRoundTrip,
		"outcomes":          testOutcomes,
		"identical links":   testIdenticalLinks,
		"repeated insert":   testRepeatedInsert,
		"model":             testStoreModel,
		"delete":            testDelete,
		"all":               testAll,
		"ended context":     testEndedContext,
		"overlapping codes": testOverlappingCodes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func keyLink(code string) Link {
	return Link{Code: code, URL: "https://example.com/" + code, Source: "pool", CreatedAt: testMoment.UTC()}
}

func insert(t testing.TB, s Store, links ...Link) []Outcome {
	t.Helper()
	outcomes, err := s.Insert(t.Context(), links)
	if err != nil {
		t.Fatalf("Insert: %v", err)
	}
	return outcomes
}

func wantOutcomes(t testing.TB, got []Outcome, want ...Outcome) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("outcomes (-want +got):\n%s", diff)
	}
}

func wantLink(t testing.TB, s Store, want Link) {
	t.Helper()
	got, err := s.Lookup(t.Context(), want.Code)
	if err != nil {
		t.Fatalf("Lookup(%q): %v", want.Code, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("Lookup(%q) (-want +got):\n%s", want.Code, diff)
	}
	if got.CreatedAt.Location() != time.UTC {
		t.Fatalf("Lookup(%q) gives a time in %v", want.Code, got.CreatedAt.Location())
	}
}

func testRoundTrip(t *testing.T, s Store) {
	links := []Link{
		keyLink("000000"),
		{Code: "a", URL: "http://h", Source: SourceAlias, CreatedAt: testMoment, ExpiresAt: testMoment.AddDate(100, 0, 0)},
		{Code: "A-_0123456789abc", URL: "https://h/" + strings.Repeat("x", 2048-10), Source: "random", CreatedAt: testMoment},
		{Code: "nanoseconds", URL: `https://h/?q='"\{},NULL%00`, Source: "pool", CreatedAt: testMoment.Add(999)},
	}
	wantOutcomes(t, insert(t, s, links...), Inserted, Inserted, Inserted, Inserted)
	for _, want := range links {
		want.CreatedAt = want.CreatedAt.UTC().Truncate(time.Microsecond)
		if !want.ExpiresAt.IsZero() {
			want.ExpiresAt = want.ExpiresAt.UTC()
		}
		wantLink(t, s, want)
	}
	if _, err := s.Lookup(t.Context(), "unknown"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("Lookup of an unknown code: %v", err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func testOutcomes(t *testing.T, s Store) {
	old, gone := keyLink("old"), keyLink("gone")
	insert(t, s, old, gone)
	gone.DeletedAt = testMoment.UTC()
	if err := s.Delete(t.Context(), gone.Code, testMoment); err != nil {
		t.Fatal(err)
	}
	other := func(code string) Link {
		l := keyLink(code)
		l.URL = "https://other.example/"
		return l
	}
	// z before a: outcomes come in the order of the call, not of the codes.
	wantOutcomes(t, insert(t, s, keyLink("z"), other("old"), keyLink("m"), other("gone"), other("m"), keyLink("a")),
		Inserted, Conflict, Inserted, Conflict, Conflict, Inserted)
	for _, want := range []Link{old, gone, keyLink("z"), keyLink("m"), keyLink("a")} {
		wantLink(t, s, want)
	}
}

func testIdenticalLinks(t *testing.T, s Store) {
	wantOutcomes(t, insert(t, s, keyLink("twin"), keyLink("twin")), Inserted, Conflict)
	wantOutcomes(t, insert(t, s, keyLink("twin"), keyLink("twin")), Present, Conflict)
}

// testRepeatedInsert differs in one thing at a time from a link that is there.
func testRepeatedInsert(t *testing.T, s Store) {
	base := keyLink("base")
	base.ExpiresAt = testMoment.UTC().Add(time.Hour)
	insert(t, s, base)
	for name, change := range map[string]func(*Link){
		"url":        func(l *Link) { l.URL += "x" },
		"source":     func(l *Link) { l.Source = SourceAlias },
		"created_at": func(l *Link) { l.CreatedAt = l.CreatedAt.Add(time.Microsecond) },
		"expires_at": func(l *Link) { l.ExpiresAt = l.ExpiresAt.Add(time.Microsecond) },
		"no expiry":  func(l *Link) { l.ExpiresAt = time.Time{} },
	} {
		changed := base
		change(&changed)
		if got := insert(t, s, changed); got[0] != Conflict {
			t.Errorf("another %s: outcome %v", name, got[0])
		}
	}
	wantOutcomes(t, insert(t, s, keyLink("new"), base), Inserted, Present)
	if err := s.Delete(t.Context(), base.Code, testMoment); err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, insert(t, s, base), Present) // it was inserted, and was deleted since
	base.DeletedAt = testMoment.UTC()
	wantLink(t, s, base)
}

// testStoreModel compares calls with few codes and fewer URLs to a map.
func testStoreModel(t *testing.T, s Store) {
	model := make(map[string]Link)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		links := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) Link {
			l := keyLink(fmt.Sprintf("%d-%d", run/4, rapid.IntRange(0, 9).Draw(rt, "code")))
			l.URL += rapid.SampledFrom([]string{"", "?2"}).Draw(rt, "url")
			return l
		}), 1, 20).Draw(rt, "links")
		var want []Outcome
		won := make(map[string]bool)
		for _, l := range links {
			row, exists := model[l.Code]
			switch {
			case !exists:
				model[l.Code], won[l.Code] = l, true
				want = append(want, Inserted)
			case row == l && !won[l.Code]:
				won[l.Code] = true
				want = append(want, Present)
			default:
				want = append(want, Conflict)
			}
		}
		wantOutcomes(t, insert(t, s, links...), want...)
	})
	for _, want := range model {
		wantLink(t, s, want)
	}
}

func testDelete(t *testing.T, s Store) {
	link := keyLink("doomed")
	insert(t, s, link, keyLink("other"))
	for i := range 2 {
		if err := s.Delete(t.Context(), link.Code, testMoment.Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	link.DeletedAt = testMoment.UTC()
	wantLink(t, s, link)
	wantLink(t, s, keyLink("other"))
	if err := s.Delete(t.Context(), "unknown", testMoment); !errors.Is(err, ErrNotFound) {
		t.Fatalf("Delete of an unknown code: %v", err)
	}
}

func testAll(t *testing.T, s Store) {
	var want []Link
	for i := range 2*allPage + 1 { // more than two pages, where there are pages
		want = append(want, keyLink(fmt.Sprintf("%06d", i*7919%1_000_000)))
	}
	insert(t, s, want...)
	var got []string
	for link, err := range s.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if link.Source != "pool" {
			t.Fatalf("%q has the source %q", link.Code, link.Source)
		}
		got = append(got, link.Code)
		if len(got) == 1 { // a writer is not locked out meanwhile
			insert(t, s, keyLink("meanwhile"))
		}
	}
	got = slices.DeleteFunc(got, func(code string) bool { return code == "meanwhile" })
	slices.Sort(got)
	codes := make([]string, len(want))
	for i := range want {
		codes[i] = want[i].Code
	}
	slices.Sort(codes)
	if !slices.Equal(codes, got) {
		t.Fatalf("All gave %d codes, not the %d that were there", len(got), len(codes))
	}
	for range s.All(t.Context()) {
		break
	}
	wantLink(t, s, keyLink("meanwhile")) // to break off leaves the store in order
}

func testEndedContext(t *testing.T, s Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Insert(ctx, []Link{keyLink("late")}); !errors.Is(err, ErrNotWritten) || !errors.Is(err, context.Canceled) {
		t.Errorf("Insert: %v", err)
	}
	if _, err := s.Lookup(ctx, "late"); !errors.Is(err, context.Canceled) {
		t.Errorf("Lookup: %v", err)
	}
	if err := s.Delete(ctx, "late", testMoment); !errors.Is(err, context.Canceled) {
		t.Errorf("Delete: %v", err)
	}
	if err := s.Ping(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Ping: %v", err)
	}
	var last error
	for _, last = range s.All(ctx) {
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("All: %v", last)
	}
	if _, err := s.Lookup(t.Context(), "late"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Insert was refused, and yet: %v", err)
	}
}

// testOverlappingCodes has writers want the same codes in different orders.
func testOverlappingCodes(t *testing.T, s Store) {
	const writers, codes = 8, 400
	var inserted atomic.Int32
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			links := make([]Link, codes)
			for i := range links {
				links[i] = keyLink(fmt.Sprint((i + w*codes/writers) % codes))
				links[i].URL = fmt.Sprintf("https://h/%d", w)
			}
			outcomes, err := s.Insert(t.Context(), links)
			if err != nil {
				t.Error(err)
			}
			for _, o := range outcomes {
				if o == Inserted {
					inserted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if inserted.Load() != codes {
		t.Fatalf("%d links were inserted for %d codes", inserted.Load(), codes)
	}
}
