package server

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"

	"keypool/cmd/internal/app"
	"keypool/shortener/service"
	"keypool/shortener/visits"
	"keypool/web/client"
)

// headroom is the number of bytes of new objects after which the garbage collector runs. By default, the
// collector runs when the heap has doubled. The heap of a server is small, so with this default the
// collector would run all the time.
const headroom = 16 << 20

// minimumHeap is the size of the heap below which the collector does not run if GOGC is 100 (percent). For another
// percentage, the runtime scales this size.
const minimumHeap = 4 << 20

// cacheShare is the part of GOMEMLIMIT that cached links may use. If objects in use filled the memory up to GOMEMLIMIT,
// the collector would run all the time.
const cacheShare = 0.25

const (
	// rowMemory is the number of bytes that one count of visits takes in memory.
	rowMemory = 128
	// rowShare is the part of GOMEMLIMIT that counts of visits may use. A flush in progress may use the same amount in
	// addition.
	rowShare = 0.05
	// clientShare is the part of GOMEMLIMIT that each of the three kinds of limits of clients may use: misses, anonymous
	// creations, and creations with tokens.
	clientShare = 0.02
)

// cachedLinks returns how many links a server keeps in memory.
func cachedLinks() int { return app.Fitting(cacheShare, service.LinkMemory, service.DefaultCacheSize) }

// countedRows returns how many counts of visits a server keeps in memory.
func countedRows() int { return app.Fitting(rowShare, rowMemory, visits.DefaultMaxRows) }

// limitedClients returns the number of clients whose requests a server counts, for each kind of limit.
func limitedClients() int {
	return app.Fitting(clientShare, client.LimitMemory, client.DefaultClients)
}

// headroomKeeper changes the percentage of the collector (GOGC) after each collection, so that the
// collector runs after headroom bytes of new objects. If a quarter of the heap is more than headroom,
// the collector runs when new objects take as much memory as this quarter. If GOMEMLIMIT is set, the
// collector also runs when the process reaches this limit.
type headroomKeeper struct {
	stopped atomic.Bool
	percent int64 // the present percentage
}

// keepHeadroom starts a headroomKeeper. It does nothing if the environment variable GOGC is set. The function
// that it returns stops the headroomKeeper and restores the previous percentage.
func keepHeadroom() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	k := &headroomKeeper{percent: 100}
	before := debug.SetGCPercent(100)
	k.adjust()
	return func() {
		k.stopped.Store(true)
		debug.SetGCPercent(before)
	}
}

// adjust computes the percentage from the size of the objects that the last collection kept, and sets it.
// adjust also allocates an object. When the next collection frees this object, the runtime calls adjust again.
func (k *headroomKeeper) adjust() {
	if k.stopped.Load() {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	percent := int64(100 * headroom / max(live[0].Value.Uint64(), minimumHeap))
	if percent = max(percent, 25); percent < k.percent*9/10 || percent > k.percent*11/10 { // a change stops all goroutines for a moment
		k.percent = percent
		debug.SetGCPercent(int(percent))
	}
	runtime.AddCleanup(new(collected), func(k *headroomKeeper) { k.adjust() }, k)
}

// collected is an object that the next collection frees. It contains a pointer, because the runtime
// allocates small objects without pointers together, and frees them together.
type collected struct{ _ *byte }
