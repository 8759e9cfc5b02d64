// Package proc runs child processes for tests and experiments: the programs of this project and
// the databases that they use. It needs Linux.
//
// Invariant: when the process that started a child ends for any reason, the kernel kills the child.
package proc

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// Process is one run of a program. Its methods may be called concurrently.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and was reaped
	err  error         // how the process ended; valid after done is closed
}

// Start starts cmd in its own process group, so that Ctrl-C reaches only the caller. A goroutine
// waits for the end of cmd.
func Start(cmd *exec.Cmd) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig, cmd.SysProcAttr.Setpgid = syscall.SIGKILL, true
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.done)
		// The kernel sends Pdeathsig when the thread that forked the child ends, even if the process
		// continues (prctl(2)). Therefore this goroutine keeps its thread until the child ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns how the process ended: nil for exit status 0, and otherwise the error of [exec.Cmd.Wait], usually an
// [exec.ExitError]. The process must have ended.
func (p *Process) Err() error { return p.err }

// Exit waits for the end of the process and returns its exit status, or -1 if a signal ended it. It
// returns an error if the process is still running after limit.
func (p *Process) Exit(limit time.Duration) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(limit):
		return 0, fmt.Errorf("%s did not end within %v", p.cmd.Path, limit)
	}
}

// Signal sends sig to the process, but not to its descendants. It does nothing if the process has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to %s: %w", sig, p.cmd.Path, err)
	}
	return nil
}

// SignalTree sends sig to the process and to all its descendants. A signal to the process group
// would miss the children of PostgreSQL, because each child has its own group.
func (p *Process) SignalTree(sig syscall.Signal) error {
	// Stop the parent first, so that it forks no child after the list of its descendants was made.
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	var errs []error
	for _, pid := range p.Descendants() {
		if sig == syscall.SIGKILL {
			orphaned.Add(int64(usedTime(pid)))
		}
		errs = append(errs, kill(pid, sig))
	}
	return errors.Join(append(errs, p.Signal(sig))...)
}

func kill(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %v to process %d: %w", sig, pid, err)
	}
	return nil
}

// Descendants returns the ids of the children of p and of all their descendants. p must not have
// ended, because the children of an ended process have another parent.
func (p *Process) Descendants() (below []int) {
	all, err := procfs.AllProcs()
	if err != nil {
		panic(err) // there is no /proc
	}
	children := make(map[int][]int)
	for _, child := range all {
		if stat, err := child.Stat(); err == nil { // otherwise the process has ended
			children[stat.PPID] = append(children[stat.PPID], child.PID)
		}
	}
	for next := []int{p.PID()}; len(next) > 0; next = next[1:] {
		below = append(below, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return below
}

// orphaned is the processor time, in nanoseconds, of descendants that [Process.SignalTree] killed.
var orphaned atomic.Int64 //nolint:gochecknoglobals // the sum over all child processes of this process

// Orphaned returns the processor time of all descendants that [Process.SignalTree] killed. The kernel adds the time of
// a child to its parent when the parent waits for the child. SignalTree also kills the parents, which then never wait
// for their children. Therefore Orphaned counts the time of these children.
func Orphaned() time.Duration { return time.Duration(orphaned.Load()) }

// userHZ is the number of clock ticks per second. The Linux kernel counts processor time in ticks (proc(5)).
const userHZ = 100

// Used returns the processor time of a process and of the children that it has waited for.
func Used(s *procfs.ProcStat) time.Duration {
	return time.Duration(int(s.UTime)+int(s.STime)+s.CUTime+s.CSTime) * time.Second / userHZ
}

// Processes reads the state of every process of the machine. It omits a process that ends during the call.
func Processes() (stats []procfs.ProcStat, err error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("read the times of the processes: %w", err)
	}
	for _, process := range all {
		if stat, err := process.Stat(); err == nil { // otherwise the process has ended
			stats = append(stats, stat)
		}
	}
	return stats, nil
}

// Family returns the processor time of a process and of its descendants, according to stats. The parameter root is the
// id of the process. The result includes the time of an ended child if its parent has waited for it. The result does not
// include the time of a process whose parent has ended; see [Orphaned].
func Family(stats []procfs.ProcStat, root int) (used time.Duration) {
	for i := range stats {
		s := &stats[i]
		if s.PID == root {
			used += Used(s)
		}
		if s.PPID == root {
			used += Family(stats, s.PID)
		}
	}
	return used
}

// Processor returns the processor time that the process and its descendants have used. It returns an error if the process
// has ended, because the time of its descendants is then unknown.
func (p *Process) Processor() (time.Duration, error) {
	stats, err := Processes()
	if err != nil {
		return 0, err
	}
	runs := func(s procfs.ProcStat) bool { return s.PID == p.PID() && s.State != "Z" }
	if !slices.ContainsFunc(stats, runs) {
		return 0, fmt.Errorf("read the processor time of %s: process %d has ended", p.cmd.Path, p.PID())
	}
	return Family(stats, p.PID()), nil
}

// usedTime is like Used, but takes the id of the process. It returns 0 if the process does not exist any more.
func usedTime(pid int) time.Duration {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	stat, err := process.Stat()
	if err != nil {
		return 0
	}
	return Used(&stat)
}

// Alive reports whether a process still holds resources. A zombie holds no resources.
func Alive(pid int) bool {
	state := State(pid)
	return state != "" && state != "Z" && state != "X"
}

// State returns the state of a process as in proc_pid_stat(5), such as "T" for stopped, or "Z" for a process that has
// ended but was not reaped. It returns "" if the process does not exist.
func State(pid int) string {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return ""
	}
	stat, err := process.Stat()
	if err != nil {
		return ""
	}
	return stat.State
}

// tried counts the ports that FreePort has tried, so that each call of FreePort tries other ports.
var tried atomic.Uint32 //nolint:gochecknoglobals // all callers share the ports of the machine

// FreePort returns a port in [low, high) on which no process listens at 127.0.0.1. high should be 32768 at most, because
// by default Linux uses the ports from 32768 to 60999 for outgoing connections. Such a connection could take the port of
// a program while the program is stopped. FreePort may be called concurrently.
func FreePort(low, high int) (int, error) {
	var err error
	for range 100 {
		// Two processes that call FreePort at the same time rarely try the same ports.
		port := low + (os.Getpid()*97+int(tried.Add(1)))%(high-low)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil { //nolint:noctx // listening does not block
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}
