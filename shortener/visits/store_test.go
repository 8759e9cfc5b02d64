package visits

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"keypool/internal/promvalue"
	"keypool/shortener/storetest"
)

func TestApplyAddsRepeatedFlushPartOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		p := Part{Writer: "w", Sequence: 1,
			Rows:   []Row{{"a", at(0), 0, Count{2, 1}}, {"b", at(0), 7, Count{Human: 5}}},
			Facets: []FacetRow{{"a", Devices, at(0) / hoursPerDay, "phone", Count{Human: 2}}},
		}
		for range 3 {
			apply(t, s, p)
		}
		wantTotals(t, s, map[string]Count{"a": {2, 1}, "b": {5, 0}}, "a", "b", "c", "a")
		p.Sequence = 2
		apply(t, s, p)
		p.Sequence = 1 // an older part that arrives late
		apply(t, s, p)
		wantTotals(t, s, map[string]Count{"a": {4, 2}}, "a")
		values, err := s.Facet(t.Context(), "a", Devices, Range{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "devices", values, Values{Items: []Value{{"phone", Count{Human: 4}}}})
	})
}

// The isolation level does not depend on the default of the database. At the level repeatable read, concurrent changes fail.
func TestChangeOfVisitsUsesReadCommittedIsolation(t *testing.T) {
	t.Parallel()
	db := stdlib.OpenDBFromPool(storetest.RepeatableRead(t))
	t.Cleanup(func() { db.Close() })
	var level string
	err := Postgres(db).transact(t.Context(), func(tx *sql.Tx) error {
		return tx.QueryRowContext(t.Context(), `SHOW transaction_isolation`).Scan(&level)
	})
	if level != "read committed" || err != nil {
		t.Errorf("the isolation level is %q, error %v; want read committed", level, err)
	}
}

func TestApplyRefusesFlushPartIfPreviousPartIsMissing(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		p := Part{Writer: "w", Sequence: 1, Rows: []Row{{"a", at(0), 0, Count{1, 0}}}}
		if err := s.Apply(t.Context(), p); !errors.Is(err, ErrForgotten) {
			t.Fatalf("Apply of part 1 before the registration: %v, want ErrForgotten", err)
		}
		apply(t, s, p)
		p.Sequence = 3
		if err := s.Apply(t.Context(), p); !errors.Is(err, ErrForgotten) {
			t.Fatalf("Apply of part 3 before part 2: %v, want ErrForgotten", err)
		}
		wantTotals(t, s, map[string]Count{"a": {1, 0}}, "a")
	})
}

// Several writers add to the same rows at the same time, and repeat each part. The sums must be exact, no
// transaction may fail because of a deadlock, and no link may have more than MaxValues values of a facet
// on one day.
func TestConcurrentWritersStoreEachFlushPartOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		const writers, parts, codes = 4, 5, 20
		day := at(0) / hoursPerDay
		var wg sync.WaitGroup
		for w := range writers {
			if err := s.Register(t.Context(), fmt.Sprint("writer ", w)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				wg.Go(func() {
					for n := range parts {
						p := Part{Writer: fmt.Sprint("writer ", w), Sequence: int64(n) + 1}
						for c := range codes {
							p.Rows = append(p.Rows, Row{fmt.Sprintf("code%02d", c), at(0), 0, Count{1, 2}})
						}
						for v := range 30 {
							p.Facets = append(p.Facets, FacetRow{"code00", Referrers, day, fmt.Sprintf("%d-%d-%02d.example", w, n, v), Count{1, 0}})
						}
						if err := s.Apply(t.Context(), p); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		wantTotals(t, s, map[string]Count{"code00": {writers * parts, 2 * writers * parts}}, "code00")
		values, err := s.Facet(t.Context(), "code00", Referrers, Range{}, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(values.Items) != MaxValues || values.Other != writers*parts*30-MaxValues {
			t.Errorf("%d values and %d other visits, want %d and %d", len(values.Items), values.Other, MaxValues, writers*parts*30-MaxValues)
		}
	})
}

// After MaxValues values of a facet are stored for a link and a day, each of these values is still counted separately.
// Another day has its own MaxValues values.
func TestStoredFacetValuesAreCountedAfterMaxValuesIsReached(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		day := at(0) / hoursPerDay
		p := Part{Writer: "w", Sequence: 1}
		for v := range MaxValues + 1 {
			p.Facets = append(p.Facets, FacetRow{"a", Referrers, day, fmt.Sprintf("%03d.example", v), Count{1, 0}})
		}
		apply(t, s, p)
		p.Sequence, p.Facets = 2, []FacetRow{
			{"a", Referrers, day, "000.example", Count{5, 1}}, {"a", Referrers, day, "new.example", Count{3, 0}},
			{"a", Referrers, day + 1, "new.example", Count{4, 0}},
		}
		apply(t, s, p)
		values, err := s.Facet(t.Context(), "a", Referrers, Range{}, 2)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "referrers", values, Values{
			Items: []Value{{"000.example", Count{6, 1}}, {"new.example", Count{4, 0}}}, Other: MaxValues - 1 + 1 + 3,
		})
		values, err = s.Facet(t.Context(), "a", Referrers, Range{From: noon().Add(24 * time.Hour)}, 10)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "referrers of the next day", values, Values{Items: []Value{{"new.example", Count{4, 0}}}})
	})
}

func TestSeriesCountsOnlyVisitsInTimeRange(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		apply(t, s, Part{Writer: "w", Sequence: 1, Rows: []Row{
			{"a", at(-24), 0, Count{1, 0}}, {"a", at(0), 0, Count{2, 1}}, {"a", at(1), 0, Count{4, 0}}, {"b", at(0), 0, Count{9, 9}},
		}})
		setPast(t, s, BeforeImport{"a", 0, Count{100, 10}})
		noonHour, midnight := timeOf(at(0)), timeOf(at(-12))
		for name, test := range map[string]struct {
			r    Range
			step Step
			want Series
		}{
			"all by day":   {Range{}, Day, Series{Count{107, 11}, []Point{{midnight.AddDate(0, 0, -1), Count{1, 0}}, {midnight, Count{6, 1}}}}},
			"total":        {Range{}, All, Series{Total: Count{107, 11}}},
			"from by hour": {Range{From: noon()}, Hour, Series{Count{6, 1}, []Point{{noonHour, Count{2, 1}}, {noonHour.Add(time.Hour), Count{4, 0}}}}},
			"to an hour":   {Range{From: midnight, To: noonHour.Add(time.Hour)}, Hour, Series{Count{2, 1}, []Point{{noonHour, Count{2, 1}}}}},
			"within":       {Range{From: noon(), To: noon().Add(time.Minute)}, All, Series{Total: Count{2, 1}}},
			"future":       {Range{From: noon().AddDate(1, 0, 0)}, Day, Series{}},
		} {
			got, err := s.Series(t.Context(), "a", test.r, test.step)
			if err != nil {
				t.Fatal(err)
			}
			wantEqual(t, name, got, test.want)
		}
	})
}

func TestTopLinksAreSortedByVisitsInRange(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		apply(t, s, Part{Writer: "w", Sequence: 1, Rows: []Row{
			{"anon", at(0), 0, Count{3, 0}}, {"five", at(-1), 5, Count{1, 1}}, {"five", at(0), 5, Count{2, 0}}, {"six", at(0), 6, Count{0, 9}},
			{"old", at(-100), 5, Count{1, 0}},
		}})
		setPast(t, s, BeforeImport{"anon", 0, Count{Human: 1000}})
		for name, test := range map[string]struct {
			owner int64
			r     Range
			limit int
			want  []Link
		}{
			"all":        {0, Range{}, 10, []Link{{"six", Count{0, 9}}, {"five", Count{3, 1}}, {"anon", Count{3, 0}}, {"old", Count{1, 0}}}},
			"an hour":    {0, Range{From: noon().Add(-time.Hour), To: noon().Add(-time.Hour)}, 10, []Link{{"five", Count{1, 1}}}},
			"limit":      {0, Range{}, 1, []Link{{"six", Count{0, 9}}}},
			"owner":      {5, Range{}, 10, []Link{{"five", Count{3, 1}}, {"old", Count{1, 0}}}},
			"range":      {5, Range{From: noon()}, 10, []Link{{"five", Count{2, 0}}}},
			"other":      {7, Range{}, 10, nil},
			"past range": {0, Range{To: noon().AddDate(-1, 0, 0)}, 10, nil},
		} {
			got, err := s.Top(t.Context(), test.owner, test.r, test.limit)
			if err != nil {
				t.Fatal(err)
			}
			wantEqual(t, name, got, test.want)
		}
	})
}

func TestRepeatedImportCountsEarlierVisitsOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		links := []BeforeImport{{"b", 0, Count{20, 2}}, {"a", 3, Count{10, 1}}}
		for range 2 {
			setPast(t, s, links...)
		}
		wantTotals(t, s, map[string]Count{"a": {10, 1}, "b": {20, 2}}, "a", "b")
	})
}

// While the database is busy, Series and Facet fail after readTimeout, because a person waits for their results.
// Totals waits.
func TestSeriesAndFacetTimeOutWhileDatabaseIsBusy(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		apply(t, s, Part{Writer: "w", Sequence: 1, Rows: []Row{{"a", at(0), 0, Count{1, 0}}}})
		s.limit = readTimeout
		s.read.SetMaxOpenConns(1)
		busy, err := s.read.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer busy.Close()
		result := make(chan error)
		go func() {
			totals, err := s.Totals(t.Context(), []string{"a"})
			if err == nil && totals["a"] != (Count{1, 0}) {
				err = fmt.Errorf("totals %v", totals)
			}
			result <- err
		}()
		for s.read.Stats().WaitCount == 0 {
			runtime.Gosched() // until Totals waits
		}
		_, err1 := s.Series(t.Context(), "a", Range{}, All)
		_, err2 := s.Facet(t.Context(), "a", Devices, Range{}, 1)
		if !errors.Is(err1, context.DeadlineExceeded) || !errors.Is(err2, context.DeadlineExceeded) {
			t.Errorf("Series: %v, Facet: %v; want DeadlineExceeded", err1, err2)
		}
		if err := busy.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-result; err != nil {
			t.Errorf("Totals: %v", err)
		}
	})
}

func TestExpireRemovesOldCountsAndKeepsTotals(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		day := at(0) / hoursPerDay
		p := Part{Writer: "w", Sequence: 1, Facets: []FacetRow{
			{"a", Devices, day - 10, "phone", Count{1, 0}}, {"a", Devices, day, "phone", Count{2, 0}},
		}}
		for h := range int64(expirePart + 10) {
			p.Rows = append(p.Rows, Row{"a", at(-2*expirePart + h), 7, Count{1, 1}})
		}
		p.Rows = append(p.Rows, Row{"a", at(0), 7, Count{5, 0}}, Row{"b", at(-2 * expirePart), 0, Count{3, 0}})
		apply(t, s, p)
		want := map[string]Count{"a": {expirePart + 15, expirePart + 10}, "b": {3, 0}}
		wantTotals(t, s, want, "a", "b")
		for range 2 {
			if err := s.expire(t.Context(), noon(), 48*time.Hour); err != nil {
				t.Fatal(err)
			}
			wantTotals(t, s, want, "a", "b")
		}
		series, err := s.Series(t.Context(), "a", Range{}, Hour)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "points", series.Points, []Point{{timeOf(at(0)), Count{5, 0}}})
		values, err := s.Facet(t.Context(), "a", Devices, Range{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "devices", values.Items, []Value{{"phone", Count{2, 0}}})
	})
}

func TestProcessWhoseClockIsAheadRemovesNoNewCounts(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		if s.engine.clock == "" {
			return // this engine has no clock of its own
		}
		hour := hourOf(time.Now())
		apply(t, s, Part{Writer: "w", Sequence: 1, Rows: []Row{{"a", hour, 0, Count{1, 0}}}})
		if err := s.expireEarlier(t.Context(), time.Now().AddDate(10, 0, 0), 48*time.Hour); err != nil {
			t.Fatal(err)
		}
		series, err := s.Series(t.Context(), "a", Range{}, Hour)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "points", series.Points, []Point{{timeOf(hour), Count{1, 0}}})
	})
}

// After the row of an idle writer was removed, the counter continues as a new writer, and counts each visit
// once.
func TestVisitsAreCountedOnceAfterIdleWriterIsRemoved(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		c := New(Config{Store: s, Now: noon})
		for i := range 2 {
			c.Count(Visit{Code: "a"})
			if err := c.FlushNow(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantTotals(t, s, map[string]Count{"a": {0, int64(i) + 1}}, "a")
			if err := s.expire(t.Context(), time.Now().Add(2*writerMemory), 10*365*24*time.Hour); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A counter repeats a part after the database has forgotten the writer of the part. The visits of the part must count
// once, even if the part is the first part of the writer. The next part must be stored.
func TestRepeatedPartOfForgottenWriterCountsOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		lose := false
		c := New(Config{Now: noon, Store: lossy{s, &lose}})
		for n := range int64(2) {
			c.Count(Visit{Code: "a", Agent: browser})
			lose = true
			if err := c.FlushNow(t.Context()); !errors.Is(err, errLost) {
				t.Fatalf("a flush whose reply is lost: %v, want errLost", err)
			}
			wantTotals(t, s, map[string]Count{"a": {2*n + 1, 0}}, "a")
			if err := s.expire(t.Context(), time.Now().Add(2*writerMemory), 10*365*24*time.Hour); err != nil {
				t.Fatal(err)
			}
			lose = false
			for range 2 {
				if err := c.FlushNow(t.Context()); err != nil {
					t.Fatal(err)
				}
				wantTotals(t, s, map[string]Count{"a": {2*n + 1, 0}}, "a")
				wantEqual(t, "dropped visits", promvalue.Counter(c.Metrics.dropped), float64(n+1))
			}
			c.Count(Visit{Code: "a", Agent: browser}) // the new writer sends its first part; the next round loses the reply to its second part
			if err := c.FlushNow(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantTotals(t, s, map[string]Count{"a": {2*n + 2, 0}}, "a")
		}
	})
}

// lossy is a store whose replies to Apply are lost while lose is true.
type lossy struct {
	Store
	lose *bool
}

var errLost = errors.New("the reply is lost")

// Apply implements [Applier].
func (l lossy) Apply(ctx context.Context, p Part) error {
	if err := l.Store.Apply(ctx, p); err != nil || !*l.lose {
		return err
	}
	return errLost
}

func TestEraseFacetsKeepsNumbersOfVisitsAndOtherLinks(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		day := at(0) / hoursPerDay
		p := Part{Writer: "w", Sequence: 1, Rows: []Row{{"a", at(0), 0, Count{2, 1}}, {"b", at(0), 0, Count{1, 0}}}}
		for _, code := range []string{"a", "b"} {
			for f := Referrers; f <= Devices; f++ {
				p.Facets = append(p.Facets, FacetRow{code, f, day, "x", Count{1, 0}}, FacetRow{code, f, day + 1, "", Count{1, 0}})
			}
		}
		apply(t, s, p)
		for range 2 {
			if err := s.EraseFacets(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
		for f := Referrers; f <= Devices; f++ {
			for code, want := range map[string]Values{"a": {}, "b": {Items: []Value{{"x", Count{1, 0}}}, Other: 1}} {
				values, err := s.Facet(t.Context(), code, f, Range{}, 10)
				if err != nil {
					t.Fatal(err)
				}
				wantEqual(t, "values of "+code, values, want)
			}
		}
		wantTotals(t, s, map[string]Count{"a": {2, 1}, "b": {1, 0}}, "a", "b")
	})
}

// The test locks the row of the writer in an idle transaction, as a suspended process would. Apply waits for the row until
// PostgreSQL ends this transaction.
func TestPostgreSQLEndsVisitsTransactionOfSuspendedProcess(t *testing.T) {
	t.Parallel()
	db := stdlib.OpenDBFromPool(storetest.Postgres(t))
	t.Cleanup(func() { db.Close() })
	s := Postgres(db)
	if err := s.Register(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	err := s.transact(t.Context(), func(tx *sql.Tx) error {
		if first, err := claim(t.Context(), tx, "w", 1); err != nil || !first {
			t.Errorf("claim: %v, %v", first, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := s.Apply(ctx, Part{Writer: "w", Sequence: 1, Rows: []Row{{"a", at(0), 0, Count{1, 0}}}}); err != nil {
			t.Errorf("the transaction still holds the row of the writer: %v", err)
		}
		return nil
	})
	if err == nil {
		t.Error("the commit succeeded after the end of the transaction")
	}
	wantTotals(t, s, map[string]Count{"a": {1, 0}}, "a")
}

// A server may resolve a link for some time after the deletion of the link, and may flush the visits even later. The store
// adds the numbers of these visits, but not their details. The details of other links in the same part are stored.
func TestErasedLinkGetsNoFacetsFromLaterFlush(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		day := at(0) / hoursPerDay
		part := func(sequence int64, value string) Part {
			p := Part{Writer: "w", Sequence: sequence, Rows: []Row{{"a", at(0), 0, Count{1, 0}}}}
			for _, code := range []string{"a", "b"} {
				p.Facets = append(p.Facets, FacetRow{code, Referrers, day, value, Count{1, 0}}, FacetRow{code, Devices, day, value, Count{1, 0}})
			}
			return p
		}
		apply(t, s, part(1, "x"))
		if err := s.EraseFacets(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		apply(t, s, part(2, "x"))
		if err := s.expire(t.Context(), time.Unix(0, 0).Add(time.Duration(at(0))*time.Hour), 0); err != nil {
			t.Fatal(err)
		}
		apply(t, s, part(3, "y"))
		for _, f := range []Facet{Referrers, Devices} {
			for code, want := range map[string]Values{"a": {}, "b": {Items: []Value{{"x", Count{2, 0}}, {"y", Count{1, 0}}}}} {
				values, err := s.Facet(t.Context(), code, f, Range{}, 10)
				if err != nil {
					t.Fatal(err)
				}
				wantEqual(t, "values of "+code, values, want)
			}
		}
		wantTotals(t, s, map[string]Count{"a": {3, 0}}, "a")
	})
}
