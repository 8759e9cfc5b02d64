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

// point is the action at one step.
type point struct {
	action string
	n      int64
	passed atomic.Int64
}

// points holds the parsed environment variable. It is a global variable because every component
// of a program calls At.
var points = parse(os.Getenv("KEYPOOL_FAILPOINTS")) //nolint:gochecknoglobals // see above

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

// At marks a step. It reports whether the caller must omit the operation that follows.
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

// signal sends sig to the current thread, so that this thread does not continue past the call. If signal sent sig to the
// whole process, the kernel could deliver sig to another thread first, and the current thread would continue meanwhile.
func signal(sig syscall.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, _, errno := syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(syscall.Gettid()), uintptr(sig))
	if errno != 0 {
		panic(errno)
	}
}
