package shortener

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/internal/testenv"
)

// benchClients is how many creations are in the air at once.
const benchClients = 64

// benchEngines runs bench on both engines, each with full durability.
func benchEngines(b *testing.B, bench func(*testing.B, Store)) {
	b.Run("postgres", func(b *testing.B) {
		pool, err := pgxpool.New(b.Context(), testenv.StartPostgres(b).URL)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(pool.Close)
		migratePostgres(b, pool)
		bench(b, NewPostgresStore(pool))
	})
	b.Run("sqlite", func(b *testing.B) { bench(b, openSQLite(b)) })
}

// benchLink is the n-th of links with codes that are spread over the space as keys
// are, and a URL of about 100 bytes.
func benchLink(n int64) Link {
	const space = 56_800_235_584
	l := keyLink(fmt.Sprintf("%09x", n*34_567_890_127%space))
	l.URL += "/some/path/of/ordinary/length?with=a&query=that&is=not&very=long&id=" + l.Code
	return l
}

// BenchmarkInsert is the store alone: what the group commit can reach at best.
func BenchmarkInsert(b *testing.B) {
	for _, rows := range []int{1, benchClients / defaultInserters, benchClients, maxRows} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			benchEngines(b, func(b *testing.B, s Store) {
				links := make([]Link, rows)
				var n int64
				b.ReportAllocs()
				for b.Loop() {
					for i := range links {
						n++
						links[i] = benchLink(n)
					}
					insert(b, s, links...)
				}
				reportRate(b, float64(n), "rows/s")
			})
		})
	}
}

// BenchmarkCommit is the group commit with benchClients callers, each waiting for
// its own link.
func BenchmarkCommit(b *testing.B) {
	benchEngines(b, func(b *testing.B, s Store) {
		c := startCommitter(b, s, 0)
		var n atomic.Int64
		b.ReportAllocs()
		b.ResetTimer()
		b.SetParallelism(benchClients / 2) // times GOMAXPROCS, which the bars take as 2
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if outcome, err := c.commit(context.Background(), benchLink(n.Add(1))); outcome != Inserted {
					b.Errorf("outcome %v, %v", outcome, err)
				}
			}
		})
		reportRate(b, float64(n.Load()), "rows/s")
	})
}

// BenchmarkCommitAlone is the committer over a store that takes no time.
func BenchmarkCommitAlone(b *testing.B) {
	c := startCommitter(b, &brokenStore{insert: allInserted}, 0)
	link := benchLink(1)
	b.ReportAllocs()
	b.SetParallelism(benchClients / 2)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.commit(context.Background(), link); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkLookup reads random codes of a table of some size.
func BenchmarkLookup(b *testing.B) {
	const size = 100_000
	benchEngines(b, func(b *testing.B, s Store) {
		codes := make([]string, 0, size)
		for links := range slices.Chunk(make([]Link, size), 1000) {
			for i := range links {
				links[i] = benchLink(int64(len(codes)))
				codes = append(codes, links[i].Code)
			}
			insert(b, s, links...)
		}
		var n atomic.Int64
		b.ReportAllocs()
		b.ResetTimer()
		b.SetParallelism(benchClients / 2)
		b.RunParallel(func(pb *testing.PB) {
			ctx, cancel := context.WithCancel(context.Background()) // as a request's is
			defer cancel()
			for pb.Next() {
				n.Add(1)
				if _, err := s.Lookup(ctx, codes[rand.IntN(size)]); err != nil {
					b.Error(err)
				}
			}
		})
		reportRate(b, float64(n.Load()), "lookups/s")
	})
}

func reportRate(b *testing.B, n float64, unit string) {
	b.Helper()
	b.ReportMetric(n/b.Elapsed().Seconds(), unit)
}
