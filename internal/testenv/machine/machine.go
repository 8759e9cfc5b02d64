// Package machine runs Redis and Postgres from the programs that are installed on
// this machine, each server in a directory and on a port of its own.
//
// A server lives on a real process id, so that a test can kill, freeze and restart
// it, and never outlives the process that started it: the kernel kills it when that
// one dies in whatever way. This needs Linux.
package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	startTimeout = 60 * time.Second // until a started server must answer
	stopTimeout  = 30 * time.Second // until a server that was told to end must have gone
	pollInterval = 10 * time.Millisecond
)

// Server is one server with its data directory. Its methods are to be called by one
// goroutine at a time.
type Server struct {
	Addr string // host:port, the same for life, also after Restart
	URL  string // how a client reaches it, credentials included

	dir      string // everything it writes, removed by Close
	workDir  string // where it runs; "": in dir
	program  string
	args     []string
	env      []string            // nil: that of this process
	clock    string              // the file that sets its clock, if it has one of its own
	user     *syscall.Credential // nil: as this process
	stopWith syscall.Signal      // the signal for an orderly stop
	ping     func(ctx context.Context, url string) error
	tidy     func() error // removes what a killed one leaves outside of dir; nil: nothing
	running  *process     // nil while it is down
	ended    error        // how the latest run ended
}

// Dir is where the server keeps all that it writes, until Close.
func (s *Server) Dir() string { return s.dir }

// Restart stops the server when it runs and starts it again on the same address over
// the data that is left. It returns when the server answers.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	return s.start(ctx)
}

// Stop ends the server in order, so that it writes down what its settings promise,
// and waits until it has gone. Stopping a server that is down does nothing.
func (s *Server) Stop() error {
	if s.running == nil {
		return nil
	}
	return s.end(func() error {
		return errors.Join(s.Resume(), s.running.signal(s.stopWith))
	})
}

// Kill ends the server and all its children with SIGKILL, as a crash would, and
// waits until they have gone. Killing a server that is down does nothing.
func (s *Server) Kill() error {
	if s.running == nil {
		return nil
	}
	return s.end(func() error { return s.running.signalTree(syscall.SIGKILL) })
}

// Pause freezes the server and all its children: connections stay open, nothing
// answers.
func (s *Server) Pause() error {
	if s.running == nil {
		return fmt.Errorf("%s is not running", s.program)
	}
	return s.running.signalTree(syscall.SIGSTOP)
}

// Resume lets a paused server go on. Resuming one that is not paused does nothing.
func (s *Server) Resume() error {
	if s.running == nil {
		return fmt.Errorf("%s is not running", s.program)
	}
	return s.running.signalTree(syscall.SIGCONT)
}

// Close kills the server and removes its data and whatever else it leaves.
func (s *Server) Close() error {
	err := s.Kill()
	if s.tidy != nil {
		err = errors.Join(err, s.tidy())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

func (s *Server) start(ctx context.Context) error {
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor, and nothing was written here

	cmd := exec.Command(s.program, s.args...) //nolint:noctx // it runs until it is told to end
	cmd.Dir = cmp.Or(s.workDir, s.dir)
	cmd.Env = s.env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: s.user,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // a Ctrl-C is for the tests; they end their servers themselves
	}
	if s.running, err = startProcess(cmd); err != nil {
		return fmt.Errorf("start %s: %w", s.program, err)
	}
	if err := s.awaitAnswer(ctx); err != nil {
		return errors.Join(err, s.Kill())
	}
	return nil
}

func (s *Server) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := s.ping(ctx, s.URL)
		if err == nil {
			return nil
		}
		select {
		case <-s.running.done:
			return fmt.Errorf("%s ended at start: %w; it said:\n%s", s.program, s.running.err, s.logTail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w; it said:\n%s", s.program, err, s.logTail())
		case <-time.After(pollInterval):
		}
	}
}

// end tells the server to end and waits until it and its children have gone: a child
// that is left would keep the next one from the data.
func (s *Server) end(tell func() error) error {
	// Looked up while the parent lives: afterwards nothing ties them to it.
	children := descendants(s.running.pid)
	if err := tell(); err != nil {
		return err
	}
	timeout := time.After(stopTimeout)
	select {
	case <-s.running.done:
	case <-timeout:
		return fmt.Errorf("%s (pid %d) does not end", s.program, s.running.pid)
	}
	for _, pid := range children {
		for alive(pid) {
			select {
			case <-time.After(pollInterval):
			case <-timeout:
				return fmt.Errorf("a child of %s (pid %d) does not end", s.program, pid)
			}
		}
	}
	s.running, s.ended = nil, s.running.err
	return nil
}

// Ended is how the run ended that Stop or Kill ended last: nil for exit status 0, else an
// [exec.ExitError].
func (s *Server) Ended() error { return s.ended }

// PID is the process id of a server that runs.
func (s *Server) PID() int { return s.running.pid }

func (s *Server) logPath() string { return filepath.Join(s.dir, "server.log") }

// logTail is the end of what the server logged, to explain a failure.
func (s *Server) logTail() string {
	log, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-2000):])
}
