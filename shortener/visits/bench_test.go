package visits

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"

	"keypool/shortener/storetest"
)

// BenchmarkApply measures parts of 4,096 rows, each of a different link.
func BenchmarkApply(b *testing.B) {
	benchEngines(b, func(b *testing.B, s Store) {
		n := 0
		for b.Loop() {
			n++
			benchApply(b, s, n)
		}
	})
}

// BenchmarkTop measures how long it takes to find the links with the most visits among 40,960 rows.
func BenchmarkTop(b *testing.B) {
	benchEngines(b, func(b *testing.B, s Store) {
		for n := range 10 {
			benchApply(b, s, n+1)
		}
		for b.Loop() {
			if _, err := s.Top(b.Context(), 0, Range{}, 100); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchEngines(b *testing.B, run func(*testing.B, Store)) {
	b.Helper()
	b.Run("sqlite", func(b *testing.B) {
		db := storetest.SQLite(b)
		run(b, SQLite(db.Read, db.Write))
	})
	b.Run("postgres", func(b *testing.B) {
		db := stdlib.OpenDBFromPool(storetest.Postgres(b))
		b.Cleanup(func() { db.Close() })
		run(b, Postgres(db))
	})
}

// benchApply applies the n-th part.
func benchApply(b *testing.B, s Store, n int) {
	b.Helper()
	p := Part{Writer: "w", Sequence: int64(n)}
	for i := range partRows {
		p.Rows = append(p.Rows, Row{fmt.Sprintf("%06d", i*7919%1_000_000), at(int64(n)), 0, Count{1, 0}})
	}
	if n == 1 {
		if err := s.Register(b.Context(), p.Writer); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Apply(b.Context(), p); err != nil {
		b.Fatal(err)
	}
}
