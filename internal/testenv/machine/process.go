package machine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// process is a running child of this process.
type process struct {
	pid  int
	done chan struct{} // closed when the process has ended and was reaped
	err  error         // how the process ended; valid after done is closed
}

// startProcess starts cmd and waits for it in the background.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.done)
		// Pdeathsig fires when the thread that forked ends, not the process (prctl(2)). This
		// goroutine keeps its thread until the child ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// signal sends sig to the process itself. It does nothing if the process has ended.
func (p *process) signal(sig syscall.Signal) error {
	select {
	case <-p.done: // reaped: another process may have the id now
		return nil
	default:
		return kill(p.pid, sig)
	}
}

// signalTree sends sig to the process and to all its descendants. A signal to the process group
// would miss the children of PostgreSQL, because each child has its own group.
func (p *process) signalTree(sig syscall.Signal) error {
	// A stopped parent cannot fork a child that the list below misses.
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	var errs []error
	for _, pid := range descendants(p.pid) {
		errs = append(errs, kill(pid, sig))
	}
	return errors.Join(append(errs, p.signal(sig))...)
}

func kill(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %v to process %d: %w", sig, pid, err)
	}
	return nil
}

// descendants returns the ids of all processes below pid.
func descendants(pid int) []int {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		panic(err) // happens only for a malformed pattern
	}
	children := make(map[int][]int)
	for _, entry := range entries {
		child, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}
		if stat, ok := readStat(child); ok {
			children[stat.parent] = append(children[stat.parent], child)
		}
	}
	var below []int
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		below = append(below, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return below
}

// alive reports whether a process still holds resources. A zombie does not.
func alive(pid int) bool {
	stat, ok := readStat(pid)
	return ok && stat.state != "Z" && stat.state != "X"
}

type procStat struct {
	state  string
	parent int
}

// readStat reads /proc/PID/stat. It returns ok == false if the process has ended.
func readStat(pid int) (stat procStat, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, false
	}
	// The second field is a name in parentheses, which may contain any character.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 2 {
		return procStat{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	return procStat{state: fields[0], parent: parent}, err == nil
}

// freePort finds a port on which no process listens. The port is below the range that Linux
// uses for outgoing connections, so no connection can take the port while a server is down
// between Kill and Restart.
func freePort(ctx context.Context) (int, error) {
	var err error
	for range 100 {
		port := 20000 + rand.IntN(12000) //nolint:gosec // a port number is not a secret
		var l net.Listener
		if l, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port: %w", err)
}
