package testenv

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"keypool/internal/testenv/machine"
)

// Server is a server process of one test, started from the programs installed on this machine.
// Its methods block until they are done, and fail the test on an error. Call them only from the
// test's goroutine.
type Server struct {
	Addr string // host:port; Restart keeps it
	URL  string

	t      testing.TB
	server *machine.Server
}

// StartRedis starts a Redis that never evicts keys, and that loses no acknowledged write when it is
// killed (appendfsync always). The args ("--name", "value") override these settings.
func StartRedis(t testing.TB, args ...string) *Server {
	t.Helper()
	return Setup{}.StartRedis(t, args...)
}

// StartPostgres starts a PostgreSQL with its default settings, which give full durability. The
// parameter settings ("name=value") overrides the defaults.
func StartPostgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	return Setup{}.StartPostgres(t, settings...)
}

// StartStandby starts a PostgreSQL that follows primary. The settings override the defaults. For
// example, recovery_min_apply_delay makes the standby lag behind.
func StartStandby(t testing.TB, primary *Server, settings ...string) *Server {
	t.Helper()
	server, err := machine.StartStandby(t.Context(), primary.server, settings...)
	return own(t, server, err)
}

// StartPgBouncer starts a PgBouncer in transaction mode in front of postgres.
func StartPgBouncer(t testing.TB, postgres *Server) *Server {
	t.Helper()
	server, err := machine.StartPgBouncer(t.Context(), postgres.server)
	return own(t, server, err)
}

// Setup contains options of a server. For example, a server can have its own clock.
type Setup machine.Setup

// StartRedis is like the function [StartRedis], with this setup.
func (u Setup) StartRedis(t testing.TB, args ...string) *Server {
	t.Helper()
	server, err := machine.Setup(u).StartRedis(t.Context(), append([]string{
		"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction",
		"--repl-diskless-sync-delay", "0", // a replica is in sync at once, and not after five seconds
	}, args...)...)
	return own(t, server, err)
}

// StartPostgres is like the function [StartPostgres], with this setup.
func (u Setup) StartPostgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	server, err := machine.Setup(u).StartPostgres(t.Context(), settings...)
	return own(t, server, err)
}

// own converts the result of a start function of package machine. It closes the server at the end
// of the test, and fails the test if err is not nil.
func own(t testing.TB, server *machine.Server, err error) *Server {
	t.Helper()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("a program is not installed (%v); `make test` installs it", err)
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

// Stop shuts the server down cleanly.
func (s *Server) Stop() { s.t.Helper(); s.must("stop", s.server.Stop()) }

// Pause freezes the server. Connections stay open, and requests get no reply.
func (s *Server) Pause() { s.t.Helper(); s.must("pause", s.server.Pause()) }

// Resume lets a paused server continue.
func (s *Server) Resume() { s.t.Helper(); s.must("resume", s.server.Resume()) }

// Restart stops the server if it runs, and starts it again with the same data.
func (s *Server) Restart() { s.t.Helper(); s.must("restart", s.server.Restart(s.t.Context())) }

// Promote turns a server that [StartStandby] started into a primary.
func (s *Server) Promote() { s.t.Helper(); s.must("promote", machine.Promote(s.t.Context(), s.server)) }

// JumpClock sets the server's clock to the real time plus d, while the server runs. The server must
// have been started with Setup.Clock.
func (s *Server) JumpClock(d time.Duration) {
	s.t.Helper()
	s.must("set the clock of", s.server.JumpClock(d))
}

// Dir returns the directory that holds all files of the server.
func (s *Server) Dir() string { return s.server.Dir() }

func (s *Server) must(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s the server: %v", what, err)
	}
}
