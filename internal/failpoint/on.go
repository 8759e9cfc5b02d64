//go:build drill

package failpoint

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// point is what happens at one step.
type point struct {
	action string
	n      int64
	passed atomic.Int64
}

// points is what the environment says. The package reads it once, because every part of a
// program reaches failpoints.
var points = parse(os.Getenv("KEYPOOL_FAILPOINTS")) //nolint:gochecknoglobals // as above

func parse(text string) map[string]*point {
	all := make(map[string]*point)
	for field := range strings.SplitSeq(text, ",") {
		if field == "" {
			continue
		}
		step, action, ok := strings.Cut(field, "=")
		action, count, counted := strings.Cut(action, ":")
		n, err := int64(1), error(nil)
		if counted {
			n, err = strconv.ParseInt(count, 10, 64)
		}
		if !ok || err != nil || !slices.Contains([]string{"kill", "stop", "skip"}, action) {
			panic(fmt.Sprintf("KEYPOOL_FAILPOINTS: %q is not step=action[:n]", field))
		}
		all[step] = &point{action: action, n: n}
	}
	return all
}

// At marks a step. It reports whether what follows is to be left out.
func At(step string) (skip bool) {
	p := points[step]
	if p == nil {
		return false
	}
	passed := p.passed.Add(1)
	switch p.action {
	case "skip":
		return true
	case "stop":
		if passed == p.n {
			signal(syscall.SIGSTOP)
		}
	case "kill":
		if passed >= p.n {
			signal(syscall.SIGKILL)
		}
	}
	return false
}

// signal sends sig to this very thread, which therefore gets no further: sent to the
// process, it could be taken by a thread that waits for a processor.
func signal(sig syscall.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, _, errno := syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(syscall.Gettid()), uintptr(sig))
	if errno != 0 {
		panic(errno)
	}
}
