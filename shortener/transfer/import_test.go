package transfer

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/stdlib"

	"keypool/shortener"
	"keypool/shortener/pgstore"
	"keypool/shortener/sqlitestore"
	"keypool/shortener/storetest"
	"keypool/shortener/token"
	"keypool/shortener/visits"
)

// database is a store of links and the visits in the same database.
type database struct {
	links interface {
		shortener.Store
		Links
	}
	visits visits.Store
	sql    *sql.DB
}

func openSQLite(t *testing.T, order shortener.Order) database {
	t.Helper()
	db := storetest.SQLite(t)
	return database{sqlitestore.New(db, order), visits.SQLite(db.Read, db.Write), db.Write}
}

func openPostgres(t *testing.T) database {
	t.Helper()
	pool := storetest.Postgres(t)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { db.Close() })
	return database{pgstore.New(pool, storetest.Plain()), visits.Postgres(db), db}
}

// onDatabases runs test with a function that opens an empty database of each engine.
func onDatabases(t *testing.T, test func(t *testing.T, open func() database)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, func() database { return openSQLite(t, storetest.Plain()) })
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, func() database { return openPostgres(t) })
	})
}

// execute executes a statement.
func (d database) execute(t *testing.T, statement string) {
	t.Helper()
	if _, err := d.sql.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// visit stores visits in the present hour. Each call needs another writer.
func (d database) visit(t *testing.T, writer string, totals map[string]visits.Count) {
	t.Helper()
	p := visits.Part{Writer: writer, Sequence: 1}
	for _, code := range slices.Sorted(maps.Keys(totals)) {
		p.Rows = append(p.Rows, visits.Row{Code: code, Hour: time.Now().Unix() / 3600, Count: totals[code]})
	}
	if err := errors.Join(d.visits.Register(t.Context(), writer), d.visits.Apply(t.Context(), p)); err != nil {
		t.Fatal(err)
	}
}

func (d database) wantTotals(t *testing.T, want map[string]visits.Count, codes ...string) {
	t.Helper()
	got, err := d.visits.Totals(t.Context(), codes)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("visits: %v (-want +got):\n%s", err, diff)
	}
}

// imported imports a file. It returns the Summary and the texts of the refusals.
func imported(t *testing.T, i *Importer, f Format, file string) (Summary, []string) {
	t.Helper()
	var refusals []string
	i.Refuse = func(r Refusal) error {
		refusals = append(refusals, r.String())
		return nil
	}
	last := Summary{Imported: -1}
	i.Progress = func(s Summary) { last = s }
	s, err := i.Run(t.Context(), f, strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if last != s {
		t.Errorf("the last progress is %+v, want %+v", last, s)
	}
	return s, refusals
}

// importer returns an importer into a database.
func importer(d database) *Importer {
	i := testImporter()
	i.Links, i.Visits = d.links, d.visits
	return i
}

// exported returns an export of a database.
func exported(t *testing.T, d database, owners *Owners, f Format) string {
	t.Helper()
	var file bytes.Buffer
	last := int64(-1)
	e := Exporter{
		Links: d.links, Visits: d.visits, Owners: func(context.Context) (*Owners, error) { return owners, nil },
		Progress: func(links int64) { last = links },
	}
	if err := e.Run(t.Context(), f, &file); err != nil {
		t.Fatal(err)
	}
	lines := int64(strings.Count(file.String(), "\n"))
	if f == CSV {
		lines--
	}
	if last != lines {
		t.Errorf("the last progress is %d links, want %d", last, lines)
	}
	return file.String()
}

// fill inserts links of every kind and their visits. An export of these links needs more than one part.
func fill(t *testing.T, d database) {
	t.Helper()
	totals := make(map[string]visits.Count)
	var links []shortener.Link
	for n := range 2*partSize + 7 {
		l := storetest.Link(fmt.Sprintf("%06d", 2*partSize-n)) // the keys are not in the order of their creation times
		l.CreatedAt = l.CreatedAt.Add(time.Duration(n/3) * time.Second)
		switch n % 5 {
		case 1:
			l.Code += "-alias-of-more-than-sixteen-characters"
			l.ExpiresAt = l.CreatedAt.Add(-time.Hour)
		case 2:
			l.Details = storetest.Owned(l.Code, 1).Details
			totals[l.Code] = visits.Count{Human: int64(n), Bot: 1}
		case 3:
			l = storetest.Deleted(l, l.CreatedAt.Add(time.Hour))
		case 4:
			l.DeletedAt = l.CreatedAt // without details, as after a deletion by an older release
			l.Source = shortener.SourceAlias
		}
		links = append(links, l)
	}
	changed := storetest.Owned("changed", 4)
	changed.Details.Version, changed.Details.ChangedAt, changed.Details.FirstURL = 5, changed.CreatedAt, "https://first.example/?a,b;'c'"
	changed.Details.URLChangedAt = changed.CreatedAt.Add(-time.Microsecond)
	changed.Details.Title, changed.Details.Tags = `=1+2, "quoted" | \n \. <&> `+strings.Repeat("ü", 100), []string{`"`, "a,b", "ü"}
	links = append(links, changed)
	for some := range slices.Chunk(links, 700) {
		storetest.Insert(t, d.links, some...)
	}
	d.visit(t, "w", totals)
}

// The test imports an export into empty databases. The export of each of these databases equals the first export byte
// by byte. A repeated import changes nothing, and an import into the exported database changes nothing either.
func TestExportOfImportedLinksEqualsImportedFile(t *testing.T) {
	onDatabases(t, func(t *testing.T, open func() database) {
		owners := NewOwners([]token.Token{{ID: 1, Name: "ci"}, {ID: 4, Name: "amelie@example.com"}})
		from := open()
		fill(t, from)
		for _, f := range []Format{CSV, NDJSON} {
			want := exported(t, from, owners, f)
			for _, to := range []database{open(), openSQLite(t, storetest.Reversed()), from} {
				for n := range 2 {
					i := importer(to)
					i.Owners = owners
					s, refusals := imported(t, i, f, want)
					if len(refusals) > 0 || s.Records() != 2*partSize+8 || (n == 1 || to == from) && s.Imported > 0 {
						t.Fatalf("import %d: summary %+v, refusals %v", n, s, refusals)
					}
					if diff := cmp.Diff(want, exported(t, to, owners, f)); diff != "" {
						t.Fatalf("export of import %d (-want +got):\n%s", n, diff)
					}
				}
			}
		}
	})
}

func TestImportRefusesLinkThatDiffersFromStoredLink(t *testing.T) {
	onDatabases(t, func(t *testing.T, open func() database) {
		d := open()
		storetest.Insert(t, d.links, storetest.Link("taken"), storetest.Link("deleted"))
		storetest.Delete(t, d.links, storetest.Link("deleted"))
		const file = "keyword,url,title,timestamp\n" +
			"new,https://example.com/1,,\n" +
			"taken,https://example.com/other,A title,\n" +
			"new,https://example.com/2,,\n" + // of two lines with the same code, only the first is imported
			"deleted,https://example.com/deleted,,2026-03-04 04:06:07.891234\n" +
			"new,https://example.com/1,,\n" +
			"taken,https://example.com/taken,,2026-03-04 05:06:07.891234+01\n" +
			"a.b,https://example.com/,,\n"
		want := []string{
			`line 3, "taken": keyword must be a code that no other link has, but it belongs to another link in the database, which differs in url, title`,
			`line 4, "new": keyword must be a code that no other link has, but it belongs to another link in the database, which differs in url`,
			`line 5, "deleted": keyword must be a code that no other link has, but it belongs to a deleted link in the database, which differs in version, changed_at, deleted_at`,
			`line 8, "a.b": keyword must contain only the letters A-Z and a-z, digits, _ and -`,
		}
		for n := range 2 {
			i := importer(d)
			i.Rules.Now = i.Rules.Now.Add(time.Duration(n) * time.Hour) // a repetition has the same result at another time
			got, refusals := imported(t, i, YOURLS, file)
			if want := (Summary{Imported: int64(1 - n), Present: int64(2 + n), Refused: 4}); got != want {
				t.Errorf("import %d: %+v, want %+v", n, got, want)
			}
			if diff := cmp.Diff(want, refusals); diff != "" {
				t.Errorf("refusals of import %d (-want +got):\n%s", n, diff)
			}
		}
		link := storetest.Link("new")
		link.URL, link.Source, link.CreatedAt = "https://example.com/1", shortener.SourceImport, testImporter().Rules.Now
		storetest.WantLink(t, d.links, link)
	})
}

func TestDryRunOfImportWritesNothing(t *testing.T) {
	onDatabases(t, func(t *testing.T, open func() database) {
		d := open()
		storetest.Insert(t, d.links, storetest.Link("taken"))
		i := importer(d)
		i.DryRun = true
		got, refusals := imported(t, i, CSV, "code,url,human_visits\nnew,https://example.com/,1\ntaken,https://example.com/taken,1\ntaken,https://example.com/,1\n")
		if want := (Summary{Imported: 1, Present: 1, Refused: 1}); got != want || len(refusals) != 1 {
			t.Errorf("the summary is %+v, and the refusals are %v; want %+v", got, refusals, want)
		}
		if _, err := d.links.Lookup(t.Context(), "new"); !errors.Is(err, shortener.ErrNotFound) {
			t.Errorf("Lookup of a new code after a dry run: %v, want ErrNotFound", err)
		}
		d.wantTotals(t, map[string]visits.Count{}, "new", "taken")
	})
}

// A link and its visits are imported in one transaction. So an import that ended early may be repeated, even if the
// links were visited after the first import.
func TestImportStoresLinkAndItsVisitsInOneTransaction(t *testing.T) {
	onDatabases(t, func(t *testing.T, open func() database) {
		const file = "code,url,created_at,human_visits,bot_visits\na,https://example.com/a,2020-01-02T03:04:05Z,5,1\nb,https://example.com/b,2020-01-02T03:04:05Z,,\n"
		d := open()
		d.execute(t, `ALTER TABLE visits RENAME TO hidden`)
		i := importer(d)
		i.Progress = func(Summary) {}
		if _, err := i.Run(t.Context(), CSV, strings.NewReader(file)); err == nil {
			t.Fatal("an import without the table of the visits reports no error")
		}
		d.execute(t, `ALTER TABLE hidden RENAME TO visits`)
		visited := make(map[string]visits.Count)
		for _, code := range []string{"a", "b"} {
			if _, err := d.links.Lookup(t.Context(), code); err == nil {
				visited[code] = visits.Count{Human: 1}
				t.Errorf("the link %q was imported without its visits", code)
			}
		}
		d.visit(t, "between", visited)
		imported(t, importer(d), CSV, file)
		want := map[string]visits.Count{"a": {Human: 5, Bot: 1}}
		for code, n := range visited {
			n.Add(want[code])
			want[code] = n
		}
		d.wantTotals(t, want, "a", "b")
	})
}

// A link that is already in the database keeps its visits.
func TestImportKeepsVisitsOfExistingLinks(t *testing.T) {
	onDatabases(t, func(t *testing.T, open func() database) {
		d := open()
		const file = "keyword,url,timestamp,clicks\na,https://example.com/,2020-01-01 00:00:00,5\nb,https://example.com/,2020-01-01 00:00:00,0\nc.,https://example.com/,,7\n"
		if got, _ := imported(t, importer(d), YOURLS, file); got != (Summary{Imported: 2, Refused: 1}) {
			t.Errorf("the first import has the summary %+v", got)
		}
		d.visit(t, "w", map[string]visits.Count{"b": {Human: 2}})
		for _, again := range []string{file, strings.ReplaceAll(file, "00:00,", "00:00,1")} {
			if got, _ := imported(t, importer(d), YOURLS, again); got != (Summary{Present: 2, Refused: 1}) {
				t.Errorf("another import has the summary %+v", got)
			}
			d.wantTotals(t, map[string]visits.Count{"a": {Human: 5}, "b": {Human: 2}}, "a", "b", "c.")
		}
	})
}

func TestOwnerNameRefersToValidTokenOrElseToNewestToken(t *testing.T) {
	t.Parallel()
	revoked := time.Unix(1, 0)
	owners := NewOwners([]token.Token{
		{ID: 1, Name: "again", RevokedAt: revoked}, {ID: 2, Name: "again"}, {ID: 3, Name: "gone", RevokedAt: revoked},
		{ID: 4, Name: "gone", RevokedAt: revoked}, {ID: 5, Name: "back"}, {ID: 6, Name: "back", RevokedAt: revoked},
	})
	if diff := cmp.Diff(map[string]int64{"again": 2, "gone": 4, "back": 5}, maps.Clone(owners.ids)); diff != "" {
		t.Errorf("ids by the names of the owners (-want +got):\n%s", diff)
	}
	if name := owners.name(1); name != "again" {
		t.Errorf("the name of token 1 is %q", name)
	}
}

// brokenLinks returns fault from the second InsertWith and from each Lookup.
type brokenLinks struct {
	inserts int
	fault   error
}

// InsertWith implements [Links].
func (b *brokenLinks) InsertWith(ctx context.Context, links []shortener.Link, _ func([]shortener.Outcome) (string, any, error)) ([]shortener.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if b.inserts++; b.inserts == 2 {
		return nil, b.fault
	}
	return slices.Repeat([]shortener.Outcome{shortener.Inserted}, len(links)), nil
}

// Lookup implements [Links].
func (b *brokenLinks) Lookup(context.Context, string) (shortener.Link, error) {
	return shortener.Link{}, b.fault
}

func TestImportEndsAtFirstErrorAndReportsLinesOfFailedPart(t *testing.T) {
	t.Parallel()
	fault := errors.New("the disk is full")
	var file strings.Builder
	file.WriteString("code,url\n")
	for n := range 5 * partSize {
		fmt.Fprintf(&file, "c%d,https://example.com/\n", n)
	}
	i := testImporter()
	i.Links, i.Progress = &brokenLinks{fault: fault}, func(Summary) {}
	s, err := i.Run(t.Context(), CSV, strings.NewReader(file.String()))
	if !errors.Is(err, fault) || !strings.HasPrefix(err.Error(), "lines 1002 to 2001: ") || s.Imported != partSize {
		t.Errorf("the import returned %+v, %v; want an error with the lines of the second part", s, err)
	}
	i.Links, i.Refuse = &brokenLinks{inserts: 2}, func(Refusal) error { return fault }
	if _, err := i.Run(t.Context(), CSV, strings.NewReader("code,url\na.b,\n")); !errors.Is(err, fault) {
		t.Errorf("an import whose refusals cannot be printed: %v, want the error of Refuse", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	i.Progress = func(Summary) { cancel() }
	if _, err := i.Run(ctx, CSV, strings.NewReader(file.String())); !errors.Is(err, context.Canceled) {
		t.Errorf("an import whose context ends: %v, want Canceled", err)
	}
}

// slowLinks takes a second for each InsertWith.
type slowLinks struct {
	brokenLinks
	free []time.Duration // time from the end of each InsertWith to the beginning of the next InsertWith
	last time.Time
}

// InsertWith implements [Links].
func (s *slowLinks) InsertWith(_ context.Context, links []shortener.Link, _ func([]shortener.Outcome) (string, any, error)) ([]shortener.Outcome, error) {
	if !s.last.IsZero() {
		s.free = append(s.free, time.Since(s.last))
	}
	time.Sleep(time.Second)
	s.last = time.Now()
	return slices.Repeat([]shortener.Outcome{shortener.Inserted}, len(links)), nil
}

// Between two parts, an import pauses, so that other processes, which poll for the lock of the database, can take this
// lock.
func TestImportPausesBetweenPartsForOtherWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, pauses := range []bool{false, true} {
			var file strings.Builder
			file.WriteString("code,url\n")
			for n := range 3 * partSize {
				fmt.Fprintf(&file, "c%d,https://example.com/\n", n)
			}
			links := &slowLinks{}
			i := testImporter()
			i.Links, i.Progress, i.Pauses = links, func(Summary) {}, pauses
			if _, err := i.Run(t.Context(), CSV, strings.NewReader(file.String())); err != nil {
				t.Fatal(err)
			}
			var want time.Duration
			if pauses {
				want = time.Second / pauseShare
			}
			if diff := cmp.Diff([]time.Duration{want, want}, links.free[:2]); diff != "" {
				t.Errorf("pauses with Pauses=%t (-want +got):\n%s", pauses, diff)
			}
		}
	})
}
