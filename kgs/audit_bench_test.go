package kgs

import (
	"context"
	"iter"
	"runtime"
	"testing"
)

// BenchmarkAudit closes the accounts of 10 million numbers of four epochs: half of
// them linked, three in ten in the shared pool, the others lost with their epochs.
// Reading them is not part of it. Beside the time it tells what the pass keeps of them.
func BenchmarkAudit(b *testing.B) {
	const numbers, length = 10_000_000, 6
	space, err := NewSpace(make([]byte, 16))
	if err != nil {
		b.Fatal(err)
	}
	pool := string(space.AppendCodes(nil, Run{Length: length, Lo: numbers / 2, Hi: numbers / 10 * 8}))
	links := string(space.AppendCodes(nil, Run{Length: length, Lo: 0, Hi: numbers / 2}))
	books := Books{
		Epoch:  Epoch{Number: 4},
		Spaces: []SpaceBook{{Length: length, Size: Size(length), Next: numbers}},
	}
	for i := range int64(4) {
		books.Boundaries = append(books.Boundaries, Boundary{Epoch{Number: i + 1}, length, numbers / 4 * (i + 1)})
	}
	e := Evidence{
		Space: space,
		Books: func(context.Context) (Books, error) { return books, nil },
		Epoch: func(context.Context) (int64, error) { return 4, nil },
		Pool: func(context.Context) iter.Seq2[PoolEntry, error] {
			return eachCode(pool, length, func(code string) PoolEntry { return PoolEntry{Code: code} })
		},
		Links: func(context.Context) iter.Seq2[Linked, error] {
			return eachCode(links, length, func(code string) Linked { return Linked{code, SourcePool} })
		},
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		a, err := Audit(b.Context(), e)
		if err != nil || len(a.Faults) > 0 || a.Reserved != numbers {
			b.Fatalf("accounts %+v, error %v", a, err)
		}
	}
	runtime.ReadMemStats(&after)
	perNumber := float64(b.N) * numbers
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/perNumber, "ns/number")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/perNumber, "B/number")
}

// eachCode cuts text into codes of length.
func eachCode[T any](text string, length int, made func(code string) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for ; text != ""; text = text[length:] {
			if !yield(made(text[:length]), nil) {
				return
			}
		}
	}
}
