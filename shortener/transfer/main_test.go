package transfer

import (
	"runtime/metrics"
	"testing"

	"keypool/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// allocated returns the number of bytes that the test allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
