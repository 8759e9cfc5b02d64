// Package machine runs servers from the programs installed on this machine: PostgreSQL, PgBouncer, Redis, Redis
// Sentinel and others. Each server has its own directory and port.
//
// Each server is a child process, so that a test can kill, freeze and restart it. The kernel kills
// the server when the process that started it ends for any reason. The package needs Linux.
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

	"keypool/internal/proc"
)

const (
	startTimeout = 60 * time.Second // longest time from the start of a server until it accepts requests
	stopTimeout  = 30 * time.Second // longest time from the signal to a server until it exits
	pollInterval = 10 * time.Millisecond
)

// errNoFailure stands for the error of a server that ended with status 0.
var errNoFailure = errors.New("status 0")

// Server is one server with its data directory. Its methods are not safe for concurrent use.
type Server struct {
	Addr string // host:port; Restart keeps it
	URL  string // the URL for clients, with credentials

	dir      string // all files of the server; Close removes it
	workDir  string // the working directory; "" means dir
	program  string
	args     []string
	env      []string            // nil means the environment of this process
	clock    string              // the file that sets the server's clock; "" means the system clock
	user     *syscall.Credential // nil means the user of this process
	stopWith syscall.Signal      // the signal for an orderly shutdown
	ping     func(ctx context.Context, url string) error
	tidy     func() error  // removes what a killed server leaves outside dir; may be nil
	running  *proc.Process // nil while the server is down
	ended    error         // how the server process ended at the last Stop or Kill
}

// Dir returns the directory that holds all files of the server. Close removes it.
func (s *Server) Dir() string { return s.dir }

// Restart stops the server if it runs, and starts it again with the same address and data. It
// returns when the server accepts requests.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	return s.start(ctx)
}

// Stop shuts the server down cleanly, so that the server writes the data that its settings promise
// to keep. It waits until the processes have ended. Stop does nothing if the server is down.
func (s *Server) Stop() error {
	if s.running == nil {
		return nil
	}
	return s.end(func() error {
		return errors.Join(s.Resume(), s.running.Signal(s.stopWith))
	})
}

// Kill ends the server and all its children with SIGKILL, as a crash would. It waits until the
// processes have ended. Kill does nothing if the server is down.
func (s *Server) Kill() error {
	if s.running == nil {
		return nil
	}
	return s.end(func() error { return s.running.SignalTree(syscall.SIGKILL) })
}

// Pause freezes the server and all its children. Connections stay open, and requests get no
// reply.
func (s *Server) Pause() error {
	if s.running == nil {
		return fmt.Errorf("%s is not running", s.program)
	}
	return s.running.SignalTree(syscall.SIGSTOP)
}

// Resume lets a paused server continue. It has no effect on a running server that is not paused, and fails if the
// server is down.
func (s *Server) Resume() error {
	if s.running == nil {
		return fmt.Errorf("%s is not running", s.program)
	}
	return s.running.SignalTree(syscall.SIGCONT)
}

// Close kills the server and removes its data and everything else that it leaves.
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
	defer func() { _ = log.Close() }() // an error does not matter, because this process wrote nothing

	cmd := exec.Command(s.program, s.args...) //nolint:noctx // Stop, Kill or Close ends it
	cmd.Dir = cmp.Or(s.workDir, s.dir)
	cmd.Env = s.env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.user}
	if s.running, err = proc.Start(cmd); err != nil {
		return err
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
		case <-s.running.Done():
			return fmt.Errorf("%s ended at start: %w; it said:\n%s", s.program, cmp.Or(s.running.Err(), errNoFailure), s.logTail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w; it said:\n%s", s.program, err, s.logTail())
		case <-time.After(pollInterval):
		}
	}
}

// end calls signal, which sends a signal to the server. Then it waits until the server and its
// children have ended, because a remaining child would prevent the next start on the same data.
func (s *Server) end(signal func() error) error {
	// List the children first: after the parent ends, they have another parent.
	children := s.running.Descendants()
	if err := signal(); err != nil {
		return err
	}
	timeout := time.After(stopTimeout)
	select {
	case <-s.running.Done():
	case <-timeout:
		return fmt.Errorf("%s (pid %d) does not end", s.program, s.PID())
	}
	for _, pid := range children {
		for proc.Alive(pid) {
			select {
			case <-time.After(pollInterval):
			case <-timeout:
				return fmt.Errorf("a child of %s (pid %d) does not end", s.program, pid)
			}
		}
	}
	s.running, s.ended = nil, s.running.Err()
	return nil
}

// Ended returns how the server process ended at the last Stop or Kill. It returns nil for exit status
// 0 and otherwise an [exec.ExitError].
func (s *Server) Ended() error { return s.ended }

// Processor returns the processor time that the server and its children have used since its last start. The server must
// be running.
func (s *Server) Processor() (time.Duration, error) { return s.running.Processor() }

// PID returns the process id. The server must be running.
func (s *Server) PID() int { return s.running.PID() }

func (s *Server) logPath() string { return filepath.Join(s.dir, "server.log") }

// logTail returns the end of the server's log, to explain a failure.
func (s *Server) logTail() string {
	log, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-2000):])
}
