package commit_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"keypool/internal/testenv"
	"keypool/shortener"
	"keypool/shortener/commit"
	"keypool/shortener/pgstore"
	"keypool/shortener/sqlitestore"
	"keypool/shortener/storetest"
)

// newStore returns a store on a new SQLite database.
func newStore(t testing.TB) shortener.Store {
	return sqlitestore.New(storetest.SQLite(t), storetest.Plain())
}

// start returns the group commits of a store. They have no source of keys, so they commit only links that already have a
// code.
func start(t testing.TB, store shortener.Store) *commit.Parts {
	t.Helper()
	p := commit.New(commit.Config{Store: store, Placement: shortener.OnePart{}, Metrics: commit.NewMetrics(prometheus.NewRegistry())})
	t.Cleanup(func() {
		if err := p.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return p
}

// TestConcurrentCommitsOfOneCodeInsertOneLink commits 100 links with 40 different codes concurrently, so several
// links have the same code. A caller must get Inserted if and only if the row of the code has the URL of its
// link. The clock of the synctest bubble stands still while SQLite works. So a slow disk makes no commit fail.
func TestConcurrentCommitsOfOneCodeInsertOneLink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		p := start(t, store)
		const callers, codes = 100, 40
		var inserted atomic.Int32
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				link := storetest.Link(fmt.Sprint(i % codes))
				link.URL = fmt.Sprintf("https://h/%d", i)
				outcome, err := p.WithAlias(&link)
				if err != nil {
					t.Error(err)
				}
				stored, err := store.Lookup(t.Context(), link.Code)
				if err != nil {
					t.Error(err)
				}
				if won := stored.URL == link.URL; won != (outcome == shortener.Inserted) {
					t.Errorf("the link to %s has the outcome %v, but the row has the URL %s", link.URL, outcome, stored.URL)
				}
				if outcome == shortener.Inserted {
					inserted.Add(1)
				}
			})
		}
		wg.Wait()
		if inserted.Load() != codes {
			t.Fatalf("%d links were inserted for %d codes", inserted.Load(), codes)
		}
	})
}

// BenchmarkCommit measures the group commit on both engines with full durability. Every caller
// waits until its link is durable.
func BenchmarkCommit(b *testing.B) {
	b.Run("postgres", func(b *testing.B) {
		pool, err := pgxpool.New(b.Context(), testenv.StartPostgres(b).URL)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(pool.Close)
		storetest.MigratePostgres(b, pool)
		benchCommit(b, pgstore.New(pool, storetest.Plain()))
	})
	b.Run("sqlite", func(b *testing.B) { benchCommit(b, newStore(b)) })
}

func benchCommit(b *testing.B, store shortener.Store) {
	p := start(b, store)
	var n atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.SetParallelism(storetest.BenchClients / 2) // number of goroutines for each processor
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			link := storetest.BenchLink(n.Add(1))
			if outcome, err := p.WithAlias(&link); outcome != shortener.Inserted {
				b.Errorf("outcome %v, error %v", outcome, err)
			}
		}
	})
	storetest.ReportRate(b, float64(n.Load()), "rows/s")
}
