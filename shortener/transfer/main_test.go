package transfer

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"keypool/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// allocated returns the number of bytes that the process has allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// inUse returns the number of bytes of all objects that are in use.
func inUse() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
