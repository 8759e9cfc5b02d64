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
	done chan struct{} // closed when it has ended and was reaped
	err  error         // how it ended; to be read after done
}

// startProcess starts cmd and reaps it when it ends.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.done)
		// Pdeathsig fires when the thread that forked ends, not the process
		// (prctl(2)): this goroutine keeps that thread as long as the child lives.
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

// signal sends sig to the process itself; one that has ended already is fine.
func (p *process) signal(sig syscall.Signal) error {
	select {
	case <-p.done: // reaped: the id may be somebody else's by now
		return nil
	default:
		return kill(p.pid, sig)
	}
}

// signalTree sends sig to the process and to everything below it. Postgres puts each
// of its children in a process group of its own, so the group would not reach them.
func (p *process) signalTree(sig syscall.Signal) error {
	// A stopped parent cannot fork a child that the list below would miss.
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
		panic(err) // only a malformed pattern
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

// alive says whether a process still holds resources; a zombie that nobody has reaped
// yet does not.
func alive(pid int) bool {
	stat, ok := readStat(pid)
	return ok && stat.state != "Z" && stat.state != "X"
}

type procStat struct {
	state  string
	parent int
}

// readStat reads /proc/PID/stat; ok is false when the process has gone.
func readStat(pid int) (stat procStat, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, false
	}
	// The second field is a name in parentheses that may itself hold any character.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 2 {
		return procStat{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	return procStat{state: fields[0], parent: parent}, err == nil
}

// freePort finds a port that nothing listens on. It is below the range from which
// Linux takes the ports of outgoing connections: while a server is down between Kill
// and Restart, no connection can take its port.
func freePort(ctx context.Context) (int, error) {
	var err error
	for range 100 {
		port := 20000 + rand.IntN(12000) //nolint:gosec // nothing secret about it
		var l net.Listener
		if l, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port: %w", err)
}
