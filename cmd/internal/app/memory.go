package app

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// memoryShare is the part of the memory of a cgroup that the Go runtime may use. The rest is for the caches of SQLite
	// and for the code of the program, which need at least otherMemory bytes. But the Go runtime always gets at least
	// leastShare of the memory.
	memoryShare = 0.8
	leastShare  = 0.5
	otherMemory = 24 << 20
)

// minimumMemory is the smallest GOMEMLIMIT that a program accepts. With a much smaller limit, the garbage collector uses a
// whole processor, and the limits that depend on GOMEMLIMIT admit only a few connections.
const minimumMemory = 32 << 20

// limitMemory sets the memory limit of the Go runtime to a part of the memory of this process's cgroup (see goMemory). Near the limit,
// the garbage collector runs more often. Without a limit in Go, the process could use more memory than the cgroup has, and the
// kernel would kill the process. If the environment variable GOMEMLIMIT is set, limitMemory changes nothing, and returns an
// error if the limit is below minimumMemory. If a small cgroup leads to a limit below minimumMemory, limitMemory only logs a
// warning.
func limitMemory(log *slog.Logger) error {
	if text := os.Getenv("GOMEMLIMIT"); text != "" {
		if debug.SetMemoryLimit(-1) < minimumMemory { // -1 changes nothing
			return fmt.Errorf("GOMEMLIMIT: got %q, takes %dMiB or more, or off", text, minimumMemory>>20)
		}
		return nil
	}
	memory, err := memlimit.FromCgroup()
	switch {
	case err == nil:
		limit := goMemory(memory)
		debug.SetMemoryLimit(limit)
		if limit < minimumMemory {
			log.Warn("the cgroup has little memory; the garbage collector may need much processor time", "memory_bytes", memory)
		}
	case !errors.Is(err, memlimit.ErrNoLimit) && !errors.Is(err, memlimit.ErrNoCgroup) && !errors.Is(err, memlimit.ErrCgroupsNotSupported):
		log.Warn("cannot read the memory limit of the cgroup; the Go runtime has no memory limit", slog.Any("error", err))
	}
	return nil
}

// goMemory returns the memory that the Go runtime may use in a cgroup with the given memory.
func goMemory(memory uint64) int64 {
	all := float64(memory)
	return int64(max(min(memoryShare*all, all-otherMemory), leastShare*all))
}

// Fitting returns how many objects of size bytes fit into a share of GOMEMLIMIT. The result is at least 1, and at
// most the parameter most.
func Fitting(share, size float64, most int) int {
	limit := debug.SetMemoryLimit(-1) // -1 changes nothing
	return int(min(max(share*float64(limit)/size, 1), float64(most)))
}
