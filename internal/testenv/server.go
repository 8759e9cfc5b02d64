package testenv

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"keypool/internal/testenv/machine"
)

// Server is a server process of one test, from the machine's own programs. Its methods
// wait until they are done and fail the test when they cannot be; they are called from
// the test's goroutine.
type Server struct {
	Addr string // host:port, the same after Restart
	URL  string

	t      testing.TB
	server *machine.Server
}

// StartRedis starts a Redis that loses no acknowledged write when it is killed
// (appendfsync always) and never evicts; args ("--name", "value") override.
func StartRedis(t testing.TB, args ...string) *Server {
	t.Helper()
	return Setup{}.StartRedis(t, args...)
}

// StartPostgres starts a Postgres with its default, full durability; settings
// ("name=value") override.
func StartPostgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	return Setup{}.StartPostgres(t, settings...)
}

// StartStandby starts a Postgres that follows primary; settings override. With
// recovery_min_apply_delay it lags behind.
func StartStandby(t testing.TB, primary *Server, settings ...string) *Server {
	t.Helper()
	server, err := machine.StartStandby(t.Context(), primary.server, settings...)
	return own(t, server, err)
}

// Setup is in what a server differs from an ordinary one: whether it has a clock of
// its own.
type Setup machine.Setup

// StartRedis is the function of that name for a server that is set up like this.
func (u Setup) StartRedis(t testing.TB, args ...string) *Server {
	t.Helper()
	server, err := machine.Setup(u).StartRedis(t.Context(), append([]string{
		"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction",
		"--repl-diskless-sync-delay", "0", // a replica is in step at once, not five seconds later
	}, args...)...)
	return own(t, server, err)
}

// StartPostgres is the function of that name for a server that is set up like this.
func (u Setup) StartPostgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	server, err := machine.Setup(u).StartPostgres(t.Context(), settings...)
	return own(t, server, err)
}

// own turns the outcome of starting a server into a Server that ends with the test.
func own(t testing.TB, server *machine.Server, err error) *Server {
	t.Helper()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("a program is not installed that `make test` would have seen to: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
	})
	return &Server{Addr: server.Addr, URL: server.URL, t: t, server: server}
}

// Kill ends the server and its children with SIGKILL, as a crash would.
func (s *Server) Kill() { s.t.Helper(); s.must("kill", s.server.Kill()) }

// Stop ends the server in order.
func (s *Server) Stop() { s.t.Helper(); s.must("stop", s.server.Stop()) }

// Pause freezes the server: connections stay open, nothing answers.
func (s *Server) Pause() { s.t.Helper(); s.must("pause", s.server.Pause()) }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.t.Helper(); s.must("resume", s.server.Resume()) }

// Restart starts the server again over its data, stopping it first when it runs.
func (s *Server) Restart() { s.t.Helper(); s.must("restart", s.server.Restart(s.t.Context())) }

// Promote makes a primary of a server that [StartStandby] started.
func (s *Server) Promote() { s.t.Helper(); s.must("promote", machine.Promote(s.t.Context(), s.server)) }

// JumpClock sets the server's clock to the right time and d more, while it runs. It is
// for a server that was started with a clock of its own.
func (s *Server) JumpClock(d time.Duration) {
	s.t.Helper()
	s.must("set the clock of", s.server.JumpClock(d))
}

// Dir is where the server keeps all that it writes.
func (s *Server) Dir() string { return s.server.Dir() }

func (s *Server) must(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s the server: %v", what, err)
	}
}
