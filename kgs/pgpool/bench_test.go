package pgpool

import (
	"testing"

	"keypool/kgs/keysource"
)

// BenchmarkPostgresPool takes batches of 1000 keys and settles all keys as used.
func BenchmarkPostgresPool(b *testing.B) {
	for name, reserve := range map[string]bool{"delete": false, "reserve": true} {
		b.Run(name, func(b *testing.B) {
			k := newKeyPool(b)
			s := k.filler(keysource.Random{Length: func() int { return 6 }})
			p := k.process("a", reserve)
			keys := 0
			for b.Loop() {
				if keys < 1000 {
					b.StopTimer()
					for keys < 100_000 {
						n, err := s.Fill(b.Context(), maxKeys)
						if err != nil {
							b.Fatal(err)
						}
						keys += int(n)
					}
					b.StartTimer()
				}
				batch, err := p.Take(b.Context(), 1000)
				if err != nil {
					b.Fatal(err)
				}
				if err := p.Settle(b.Context(), batch, nil, nil); err != nil {
					b.Fatal(err)
				}
				keys -= len(batch.Codes)
			}
			b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
		})
	}
}
