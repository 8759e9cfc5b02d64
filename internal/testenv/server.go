package testenv

import (
	"errors"
	"os/exec"
	"testing"

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
	server, err := machine.StartRedis(t.Context(), append([]string{
		"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction",
	}, args...)...)
	return own(t, server, err)
}

// StartPostgres starts a Postgres with its default, full durability; settings
// ("name=value") override.
func StartPostgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	server, err := machine.StartPostgres(t.Context(), settings...)
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

func (s *Server) must(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s the server: %v", what, err)
	}
}
