package app

import (
	"errors"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// memoryShare is the part of the memory of a cgroup that the Go runtime may use. The rest is for the caches of SQLite and for
// the code of the program.
const memoryShare = 0.8

// limitMemory sets the memory limit of the Go runtime to memoryShare of the memory of this process's cgroup. It does nothing
// if the environment variable GOMEMLIMIT is set. Near the limit, the garbage collector runs more often. Without a limit in
// Go, the process could use more memory than the cgroup has, and the kernel would kill the process.
func limitMemory(log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	memory, err := memlimit.FromCgroup()
	switch {
	case err == nil:
		debug.SetMemoryLimit(int64(memoryShare * float64(memory)))
	case !errors.Is(err, memlimit.ErrNoLimit) && !errors.Is(err, memlimit.ErrNoCgroup) && !errors.Is(err, memlimit.ErrCgroupsNotSupported):
		log.Warn("cannot read the memory limit of the cgroup; the Go runtime has no memory limit", slog.Any("error", err))
	}
}
