package server

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

var kept, garbage []byte

// This test is not parallel, because the percentage of the collector applies to the whole process.
func TestCollectorRunsAfterHeadroom(t *testing.T) {
	t.Setenv("GOGC", "")
	defer keepHeadroom()()
	for _, tt := range []struct{ live, least, most int }{{8 << 20, 100, 400}, {64 << 20, 25, 50}} {
		kept = make([]byte, tt.live)
		for percent := -1; percent < tt.least || percent > tt.most; percent = gogc() {
			runtime.GC()
			runtime.Gosched()
		}
		const rounds = 4
		before := collections()
		for range rounds * headroom / (1 << 20) {
			garbage = make([]byte, 1<<20)
		}
		if got := collections() - before; got < rounds-2 || got > rounds+3 {
			t.Errorf("%d MiB live: %d collections for %d times the headroom", tt.live>>20, got, rounds)
		}
	}
	kept, garbage = nil, nil
}

func gogc() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

func collections() int64 {
	var stats debug.GCStats
	debug.ReadGCStats(&stats)
	return stats.NumGC
}
