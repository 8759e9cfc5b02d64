package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"keypool/shortener"
	"keypool/shortener/pgstore"
	"keypool/shortener/sqlitestore"
	"keypool/shortener/storetest"
	"keypool/shortener/token"
	"keypool/shortener/visits"
)

// onStores runs test with a function that opens an empty store of each engine.
func onStores(t *testing.T, test func(t *testing.T, open func() shortener.Store)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, func() shortener.Store { return sqlitestore.New(storetest.SQLite(t), storetest.Plain()) })
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, func() shortener.Store { return pgstore.New(storetest.Postgres(t), storetest.Plain()) })
	})
}

// counts implements Visits in memory.
type counts struct {
	mu     sync.Mutex
	totals map[string]visits.Count
	past   []visits.Past
}

// Totals implements [Visits].
func (c *counts) Totals(_ context.Context, codes []string) (map[string]visits.Count, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := make(map[string]visits.Count)
	for _, code := range codes {
		if total, ok := c.totals[code]; ok {
			found[code] = total
		}
	}
	return found, nil
}

// SetPast implements [Visits]. It adds the visits, also if the link has others.
func (c *counts) SetPast(_ context.Context, links []visits.Past) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.totals == nil {
		c.totals = make(map[string]visits.Count)
	}
	for _, v := range links {
		if slices.ContainsFunc(c.past, func(p visits.Past) bool { return p.Code == v.Code }) {
			continue
		}
		total := c.totals[v.Code]
		c.totals[v.Code] = visits.Count{Human: total.Human + v.Human, Bot: total.Bot + v.Bot}
		c.past = append(c.past, v)
	}
	return nil
}

// imported imports a file and returns the figures and the refusals.
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

// importer returns an importer into a store.
func importer(s shortener.Store, visits Visits) *Importer {
	i := testImporter()
	i.Links, i.Visits = s, visits
	return i
}

// exported exports a store.
func exported(t *testing.T, s shortener.Store, visits Visits, owners *Owners, f Format) string {
	t.Helper()
	var file bytes.Buffer
	last := int64(-1)
	e := Exporter{
		Links: s, Visits: visits, Owners: func(context.Context) (*Owners, error) { return owners, nil },
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

// fill inserts links of every kind, in several batches of an export, and returns their visits.
func fill(t *testing.T, s shortener.Store) *counts {
	t.Helper()
	kept := &counts{totals: make(map[string]visits.Count)}
	var links []shortener.Link
	for n := range 2*batchSize + 7 {
		l := storetest.Link(fmt.Sprintf("%06d", 2*batchSize-n)) // keys, in another order than their times
		l.CreatedAt = l.CreatedAt.Add(time.Duration(n/3) * time.Second)
		switch n % 5 {
		case 1:
			l.Code += "-alias-of-more-than-sixteen-characters"
			l.ExpiresAt = l.CreatedAt.Add(-time.Hour)
		case 2:
			l.Details = storetest.Owned(l.Code, 1).Details
			kept.totals[l.Code] = visits.Count{Human: int64(n), Bot: 1}
		case 3:
			l = storetest.Deleted(l, l.CreatedAt.Add(time.Hour))
		case 4:
			l.DeletedAt = l.CreatedAt // as older versions deleted links
			l.Source = shortener.SourceAlias
		}
		links = append(links, l)
	}
	changed := storetest.Owned("changed", 4)
	changed.Details.Version, changed.Details.ChangedAt, changed.Details.FirstURL = 5, changed.CreatedAt, "https://first.example/?a,b;'c'"
	changed.Details.Title, changed.Details.Tags = `=1+2, "quoted" | \n \. <&> `+strings.Repeat("ü", 100), []string{`"`, "a,b", "ü"}
	links = append(links, changed)
	for batch := range slices.Chunk(links, 700) {
		storetest.Insert(t, s, batch...)
	}
	return kept
}

// An export and the export of its import are equal, byte by byte, also if the import goes to the other engine. A repeated
// import changes nothing, also in the database of the export.
func TestRoundTrip(t *testing.T) {
	onStores(t, func(t *testing.T, open func() shortener.Store) {
		owners := NewOwners([]token.Token{{ID: 1, Name: "ci"}, {ID: 4, Name: "amelie@example.com"}})
		from, other := open(), sqlitestore.New(storetest.SQLite(t), storetest.Reversed())
		visits := fill(t, from)
		for _, f := range []Format{CSV, NDJSON} {
			want := exported(t, from, visits, owners, f)
			for _, to := range []shortener.Store{open(), other, from} {
				got := visits
				if to != from {
					got = &counts{}
				}
				for n := range 2 {
					i := importer(to, got)
					i.Owners = owners
					s, refusals := imported(t, i, f, want)
					if len(refusals) > 0 || s.Records() != 2*batchSize+8 || (n == 1 || to == from) && s.Imported > 0 {
						t.Fatalf("import %d: %+v, %v", n, s, refusals)
					}
					if diff := cmp.Diff(want, exported(t, to, got, owners, f)); diff != "" {
						t.Fatalf("export of import %d (-want +got):\n%s", n, diff)
					}
				}
			}
			other = sqlitestore.New(storetest.SQLite(t), storetest.Reversed())
		}
	})
}

func TestRefusalsOfLinksThatDiffer(t *testing.T) {
	onStores(t, func(t *testing.T, open func() shortener.Store) {
		s := open()
		storetest.Insert(t, s, storetest.Link("taken"), storetest.Link("deleted"))
		storetest.Delete(t, s, storetest.Link("deleted"))
		const file = "keyword,url,title,timestamp\n" +
			"new,https://example.com/1,,\n" +
			"taken,https://example.com/other,A title,\n" +
			"new,https://example.com/2,,\n" + // of two lines with the same code, the first one wins
			"deleted,https://example.com/deleted,,2026-03-04 04:06:07.891234\n" +
			"new,https://example.com/1,,\n" +
			"taken,https://example.com/taken,,2026-03-04 05:06:07.891234+01\n" +
			"a.b,https://example.com/,,\n"
		want := []string{
			`line 3, "taken": keyword must be free, or have the same link already, and belongs to another link, which differs in url, title`,
			`line 4, "new": keyword must be free, or have the same link already, and belongs to another link, which differs in url`,
			`line 5, "deleted": keyword must be free, or have the same link already, and belongs to a deleted link, which differs in version, changed_at, deleted_at`,
			`line 8, "a.b": keyword must contain only the letters A-Z and a-z, digits, _ and -`,
		}
		for n := range 2 {
			i := importer(s, nil)
			i.Now = i.Now.Add(time.Duration(n) * time.Hour) // a repetition does not depend on the time
			got, refusals := imported(t, i, YOURLS, file)
			if want := (Summary{Imported: int64(1 - n), Present: int64(2 + n), Refused: 4}); got != want {
				t.Errorf("import %d: %+v, want %+v", n, got, want)
			}
			if diff := cmp.Diff(want, refusals); diff != "" {
				t.Errorf("refusals of import %d (-want +got):\n%s", n, diff)
			}
		}
		link := storetest.Link("new")
		link.URL, link.Source, link.CreatedAt = "https://example.com/1", shortener.SourceImport, testImporter().Now
		storetest.WantLink(t, s, link)
	})
}

func TestDryRunWritesNothing(t *testing.T) {
	onStores(t, func(t *testing.T, open func() shortener.Store) {
		s, visits := open(), &counts{}
		storetest.Insert(t, s, storetest.Link("taken"))
		i := importer(s, visits)
		i.DryRun = true
		got, refusals := imported(t, i, CSV, "code,url,human_visits\nnew,https://example.com/,1\ntaken,https://example.com/taken,1\ntaken,https://example.com/,1\n")
		if want := (Summary{Imported: 1, Present: 1, Refused: 1}); got != want || len(refusals) != 1 {
			t.Errorf("%+v, %v; want %+v", got, refusals, want)
		}
		if _, err := s.Lookup(t.Context(), "new"); !errors.Is(err, shortener.ErrNotFound) {
			t.Errorf("Lookup of a new code: %v", err)
		}
		if len(visits.past) > 0 {
			t.Errorf("the dry run added the visits %v", visits.past)
		}
	})
}

// An import that ended before it added the visits adds them when it is repeated.
func TestVisitsAreAddedOnce(t *testing.T) {
	t.Parallel()
	s, kept := sqlitestore.New(storetest.SQLite(t), storetest.Plain()), &counts{}
	const file = "keyword,url,timestamp,clicks\na,https://example.com/,2020-01-01 00:00:00,5\nb,https://example.com/,2020-01-01 00:00:00,0\nc.,https://example.com/,,7\n"
	if got, _ := imported(t, importer(s, &counts{}), YOURLS, file); got != (Summary{Imported: 2, Refused: 1}) {
		t.Errorf("the first import: %+v", got)
	}
	for range 2 {
		imported(t, importer(s, kept), YOURLS, file)
	}
	want := []visits.Past{{Code: "a", Count: visits.Count{Human: 5}}}
	if diff := cmp.Diff(want, kept.past); diff != "" {
		t.Errorf("visits (-want +got):\n%s", diff)
	}
}

func TestOwnersOfReusedNames(t *testing.T) {
	t.Parallel()
	revoked := time.Unix(1, 0)
	owners := NewOwners([]token.Token{
		{ID: 1, Name: "again", RevokedAt: revoked}, {ID: 2, Name: "again"}, {ID: 3, Name: "gone", RevokedAt: revoked},
		{ID: 4, Name: "gone", RevokedAt: revoked}, {ID: 5, Name: "back"}, {ID: 6, Name: "back", RevokedAt: revoked},
	})
	if diff := cmp.Diff(map[string]int64{"again": 2, "gone": 4, "back": 5}, maps.Clone(owners.ids)); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	if name := owners.name(1); name != "again" {
		t.Errorf("the name of token 1 is %q", name)
	}
}

// brokenLinks fails at the second Insert.
type brokenLinks struct {
	inserts int
	fault   error
}

// Insert implements [Links].
func (b *brokenLinks) Insert(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
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

func TestImportEndsWithAnError(t *testing.T) {
	t.Parallel()
	fault := errors.New("the disk is full")
	var file strings.Builder
	file.WriteString("code,url\n")
	for n := range 5 * batchSize {
		fmt.Fprintf(&file, "c%d,https://example.com/\n", n)
	}
	i := testImporter()
	i.Links, i.Progress = &brokenLinks{fault: fault}, func(Summary) {}
	s, err := i.Run(t.Context(), CSV, strings.NewReader(file.String()))
	if !errors.Is(err, fault) || !strings.HasPrefix(err.Error(), "lines 1002 to 2001: ") || s.Imported != batchSize {
		t.Errorf("%+v, %v; want the lines of the second batch", s, err)
	}
	i.Links, i.Refuse = &brokenLinks{inserts: 2}, func(Refusal) error { return fault }
	if _, err := i.Run(t.Context(), CSV, strings.NewReader("code,url\na.b,\n")); !errors.Is(err, fault) {
		t.Errorf("an import whose refusals cannot be printed: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	i.Progress = func(Summary) { cancel() }
	if _, err := i.Run(ctx, CSV, strings.NewReader(file.String())); !errors.Is(err, context.Canceled) {
		t.Errorf("an import whose context ends: %v", err)
	}
}
