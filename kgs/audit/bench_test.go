package audit

import (
	"context"
	"iter"
	"runtime"
	"testing"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
)

// BenchmarkAudit audits 10 million numbers of four epochs. Half of the numbers are linked, three
// in ten are in the shared pool, and the others are lost with their epochs. The time does not
// include reading the data from a database. The benchmark also reports the memory that the audit
// allocates.
func BenchmarkAudit(b *testing.B) {
	const numbers, length = 10_000_000, 6
	space, err := codespace.New(make([]byte, 16))
	if err != nil {
		b.Fatal(err)
	}
	pool := string(space.AppendCodes(nil, codespace.Range{Length: length, Lo: numbers / 2, Hi: numbers / 10 * 8}))
	links := string(space.AppendCodes(nil, codespace.Range{Length: length, Lo: 0, Hi: numbers / 2}))
	snapshot := ledger.Snapshot{
		Epoch:  ledger.Epoch{Number: 4},
		Spaces: []ledger.SpaceCounter{{Length: length, Size: codespace.Size(length), Next: numbers}},
	}
	for i := range int64(4) {
		snapshot.Boundaries = append(snapshot.Boundaries, ledger.Boundary{Epoch: ledger.Epoch{Number: i + 1}, Length: length, Next: numbers / 4 * (i + 1)})
	}
	e := Evidence{
		Space:    space,
		Order:    space,
		Snapshot: func(context.Context) (ledger.Snapshot, error) { return snapshot, nil },
		Epochs:   onlyList(func(context.Context) (int64, error) { return 4, nil }),
		Pool: func(context.Context, map[int]int64) iter.Seq2[kgs.PoolEntry, error] {
			return eachCode(pool, length, func(code string) kgs.PoolEntry { return kgs.PoolEntry{Code: code} })
		},
		Links: func(context.Context) iter.Seq2[Linked, error] {
			return eachCode(links, length, func(code string) Linked { return placed(space, code, kgs.SourcePool) })
		},
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		a, err := Run(b.Context(), e)
		if err != nil || len(a.Faults) > 0 || a.Reserved != numbers {
			b.Fatalf("accounts %+v, error %v", a, err)
		}
	}
	runtime.ReadMemStats(&after)
	perNumber := float64(b.N) * numbers
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/perNumber, "ns/number")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/perNumber, "B/number")
}

// eachCode splits text into codes of the given length.
func eachCode[T any](text string, length int, made func(code string) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for ; text != ""; text = text[length:] {
			if !yield(made(text[:length]), nil) {
				return
			}
		}
	}
}
