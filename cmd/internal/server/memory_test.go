package server

import (
	"math"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"keypool/cmd/internal/config"
	"keypool/shortener/service"
	"keypool/web/client"
)

var kept, garbage []byte

// This test is not parallel, because the percentage of the collector applies to the whole process.
func TestGarbageCollectorRunsAfterHeadroomIsUsed(t *testing.T) {
	t.Setenv("GOGC", "")
	defer keepHeadroom()()
	for _, tt := range []struct{ live, least, most int }{{0, 200, 400}, {8 << 20, 100, 400}, {64 << 20, 25, 50}} {
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

// This test is not parallel, because the memory limit applies to the whole process.
func TestLinksAndClientsFitIntoMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for _, tt := range []struct {
		limit          int64
		links, clients int
	}{
		{math.MaxInt64, service.DefaultCacheSize, client.DefaultClients},
		{1 << 40, service.DefaultCacheSize, client.DefaultClients},
		{service.LinkMemory * 4 * 1000, 1000, service.LinkMemory * 4 * 1000 / 50 / client.LimitMemory},
		{0, 1, 1},
	} {
		debug.SetMemoryLimit(tt.limit)
		if links, clients := cachedLinks(), limits(config.Serve{}).Clients; links != tt.links || clients != tt.clients {
			t.Errorf("GOMEMLIMIT %d: %d links and %d clients, want %d and %d", tt.limit, links, clients, tt.links, tt.clients)
		}
	}
}

// The initialisation of the library for gRPC reflection takes 3 MiB of memory, so only bin/kgs contains the library.
func TestOnlyProgramKGSContainsGRPCReflection(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]bool{"shortener": false, "kgs": true} {
		list, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "keypool/cmd/"+program).Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(strings.Fields(string(list)), "connectrpc.com/grpcreflect"); got != want {
			t.Errorf("%s contains the library: %v, want %v", program, got, want)
		}
	}
}
