package lab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// process is one run of a program.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended; then cmd.ProcessState says how
}

// startProcess starts cmd and appends its standard error to the file log.
func startProcess(cmd *exec.Cmd, log string) (*process, error) {
	stderr, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stderr.Close() }() // the child has its own descriptor, and nothing was written here
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL, // the child must not outlive a harness that crashed
		Setpgid:   true,            // a Ctrl-C is for the harness
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.done)
		// Pdeathsig fires when the thread that forked ends, not the process (prctl(2)).
		// This goroutine keeps that thread while the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // ProcessState holds how the process ended
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// signal sends sig. A process that has ended is not an error.
func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to %s: %w", sig, p.cmd.Path, err)
	}
	return nil
}

// exit waits for the end of the process and returns its exit status, -1 when a signal
// ended it.
func (p *process) exit(limit time.Duration) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(limit):
		return 0, fmt.Errorf("%s does not end within %v", p.cmd.Path, limit)
	}
}

// kill ends the process with SIGKILL and waits until it has gone.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	_, err := p.exit(Patience)
	return err
}

// The ports of the programs under test. They are below the range from which Linux takes the
// ports of outgoing connections and below those of package machine, so that nothing takes the
// port of a program that is down for a moment.
const firstPort, lastPort = 10_000, 19_999

// portsTried counts on, so that two calls in one process never yield the same port.
var portsTried atomic.Uint32 //nolint:gochecknoglobals // the ports of a process are shared by all its runs

// FreeAddr returns an address of 127.0.0.1 on which nothing listens. It may be called
// concurrently.
func FreeAddr() (string, error) {
	var err error
	for range 100 {
		// Two harnesses on one machine rarely try the same ports.
		port := firstPort + (os.Getpid()*97+int(portsTried.Add(1)))%(lastPort-firstPort)
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil { //nolint:noctx // listening does not block
			return addr, l.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}
