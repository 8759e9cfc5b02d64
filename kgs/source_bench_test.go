package kgs

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/kgs/codespace"
)

// BenchmarkSourceNextTimed measures the duration of each call of Next, including the cost of reading the clock. The
// target is a p99 of 1 us.
func BenchmarkSourceNextTimed(b *testing.B) {
	s := newBulkSource()
	var took [100_000]int // number of calls with each duration in ns; the last element also counts all longer calls
	n := 0
	for b.Loop() {
		start := time.Now()
		k, err := s.Next(b.Context(), "", 0)
		ns := time.Since(start).Nanoseconds()
		if err != nil {
			b.Fatal(err)
		}
		k.Batch.Used()
		took[min(max(ns, 0), int64(len(took)-1))]++
		n++
	}
	b.ReportMetric(float64(percentile(took[:], n, 0.99)), "p99-ns")
	b.ReportMetric(float64(percentile(took[:], n, 0.9999)), "p99.99-ns")
	if err := s.Close(b.Context()); err != nil {
		b.Error(err)
	}
}

// percentile returns the smallest index i for which the sum of counts[0] to counts[i] is at least the given share of
// n.
func percentile(counts []int, n int, share float64) int {
	seen := 0
	for i, count := range counts {
		if seen += count; float64(seen) >= share*float64(n) {
			return i
		}
	}
	return len(counts) - 1
}

func BenchmarkSourceNext(b *testing.B) {
	s := newBulkSource()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			k, err := s.Next(b.Context(), "", 0)
			if err != nil {
				b.Error(err)
				return
			}
			k.Batch.Used()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "keys/s")
	if err := s.Close(b.Context()); err != nil {
		b.Error(err)
	}
}

func newBulkSource() *Source {
	return NewSource(SourceConfig{
		Supply: &bulkSupply{codes: codespace.Plain().Codes(codespace.Range{Length: 6, Lo: 0, Hi: 100_000})}, Min: 100_000, Max: 100_000,
		Patience: time.Minute, Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry()),
	})
}

// bulkSupply always returns a batch with the same codes, so that the benchmark measures only the source.
type bulkSupply struct{ codes []string }

func (s *bulkSupply) Take(context.Context, int) (*Batch, error) {
	return &Batch{Source: "pool", Codes: s.codes}, nil
}

func (s *bulkSupply) Settle(context.Context, *Batch, []string, []string) error { return nil }
