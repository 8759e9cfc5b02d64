package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"keypool/shortener"
)

// BenchClients is the number of goroutines of a concurrent benchmark on two processors.
const BenchClients = 64

// BenchLink returns link number n of a series. The ranks of the series increase in the order [Plain],
// like the ranks of consecutive keys. The URLs have about 100 bytes.
func BenchLink(n int64) shortener.Link {
	l := Link(fmt.Sprintf("%09d", n))
	l.URL += "/some/path/of/ordinary/length?with=a&query=that&is=not&very=long&id=" + l.Code
	return l
}

// BenchInsert measures Inserts of groups of several sizes, each size in a new store. The
// Inserts run one after the other.
func BenchInsert(b *testing.B, open func(testing.TB) shortener.Store) {
	for _, rows := range []int{1, BenchClients / 2, BenchClients, 512} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			s := open(b)
			links := make([]shortener.Link, rows)
			var n int64
			b.ReportAllocs()
			for b.Loop() {
				for i := range links {
					n++
					links[i] = BenchLink(n)
				}
				Insert(b, s, links...)
			}
			ReportRate(b, float64(n), "rows/s")
		})
	}
}

// BenchLookup looks up random codes in a table of 100,000 rows.
func BenchLookup(b *testing.B, s shortener.Store) {
	const size = 100_000
	codes := make([]string, 0, size)
	for links := range slices.Chunk(make([]shortener.Link, size), 1000) {
		for i := range links {
			links[i] = BenchLink(int64(len(codes)))
			codes = append(codes, links[i].Code)
		}
		Insert(b, s, links...)
	}
	var n atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.SetParallelism(BenchClients / 2) // number of goroutines for each processor
	b.RunParallel(func(pb *testing.PB) {
		ctx, cancel := context.WithCancel(context.Background()) // like the context of a request
		defer cancel()
		for pb.Next() {
			n.Add(1)
			if _, err := s.Lookup(ctx, codes[rand.IntN(size)]); err != nil { //nolint:gosec // only chooses a row
				b.Error(err)
			}
		}
	})
	ReportRate(b, float64(n.Load()), "lookups/s")
}

// ReportRate reports n per second of the benchmark.
func ReportRate(b *testing.B, n float64, unit string) {
	b.Helper()
	b.ReportMetric(n/b.Elapsed().Seconds(), unit)
}
