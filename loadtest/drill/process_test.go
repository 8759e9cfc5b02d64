//go:build drill

package drill

import (
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
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// process is one run of a program.
type process struct {
	t    testing.TB
	cmd  *exec.Cmd
	log  string        // the file that has its standard error
	done chan struct{} // closed when it has ended; then cmd.ProcessState says how
}

// startProcess starts cmd; its standard error is appended to the file log. It is
// killed when the test ends.
func startProcess(t testing.TB, cmd *exec.Cmd, log string) *process {
	t.Helper()
	stderr, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close() // the child has its own descriptor
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL, // it must not outlive a test that crashed
		Setpgid:   true,            // a Ctrl-C is for the test
	}
	p := &process{t: t, cmd: cmd, log: log, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.done)
		// Pdeathsig fires when the thread that forked ends, not the process
		// (prctl(2)): this goroutine keeps that thread as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in ProcessState
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// signal sends sig; a process that has ended already is fine.
func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatalf("send %v to %s: %v", sig, p.cmd.Path, err)
	}
}

// kill ends the process with SIGKILL and waits until it has gone.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	p.exit(patient)
}

// exit waits for the end of the process and returns its exit status, -1 when a signal
// ended it.
func (p *process) exit(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		p.t.Fatalf("%s does not end within %v; it said:\n%s", p.cmd.Path, limit, p.tail())
	}
	return p.cmd.ProcessState.ExitCode()
}

// stopped says that SIGSTOP has taken effect (proc(5): state T).
func (p *process) stopped() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	return err == nil && strings.Contains(string(stat), ") T ")
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// tail is the end of what the process wrote to its standard error.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// The ports for the programs under test: below the range from which Linux takes those
// of outgoing connections, so that nobody takes one by chance while the server that
// belongs there is down, and below those that package testenv uses.
const firstPort, lastPort = 10_000, 19_999

// portsTried counts on from a random start, so that no two calls yield the same port,
// nor, most likely, do two runs at the same time.
var portsTried = func() *atomic.Uint32 {
	n := new(atomic.Uint32)
	n.Store(rand.Uint32N(lastPort - firstPort))
	return n
}()

// freeAddr finds an address on which nothing listens.
func freeAddr(t testing.TB) string {
	t.Helper()
	var err error
	for range 100 {
		port := firstPort + portsTried.Add(1)%(lastPort-firstPort)
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return addr
		}
	}
	t.Fatalf("no free port: %v", err)
	return ""
}

// environment is what a program gets of ours, besides its settings. Of several values
// for one name the last counts: the settings of a control replace those of a row.
func (d *drill) environment(settings []string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	if d.control == nil {
		return append(env, settings...)
	}
	return append(append(env, settings...), d.control.settings...)
}

// command makes a command of one of the programs of this run.
func (d *drill) command(dir, program string, settings []string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(d.programs, program), args...)
	cmd.Dir = dir
	cmd.Env = d.environment(settings)
	return cmd
}
