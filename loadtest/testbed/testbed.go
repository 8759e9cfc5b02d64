// Package testbed runs the project's own programs, with the servers that they need, for
// the scenarios of the harness: real processes on 127.0.0.1, on ports that were free. The
// programs write in a directory of the bed; their logs, each cluster of PostgreSQL and each
// Redis are in directories of their own, all of them in TMPDIR. Close removes all that, so
// SIGKILL or a second Ctrl-C leaves it.
//
// Invariant: whatever a bed started has ended when Close returns, or when this process
// dies in whatever way.
package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"keypool/internal/testenv/machine"
)

// Server is a server that the project's programs need.
type Server = machine.Server

// Bed is where one scenario runs. It may be used concurrently.
type Bed struct {
	programs string // the directory of the built programs
	dir      string

	mu      sync.Mutex
	started []closer // in this order
}

type closer interface{ Close() error }

// New makes a bed for the programs that `make build` left in the directory programs.
func New(programs string) (*Bed, error) {
	programs, err := filepath.Abs(programs)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"shortener", "kgs"} {
		if _, err := exec.LookPath(filepath.Join(programs, name)); err != nil {
			return nil, fmt.Errorf("%w; `make build` makes it", err)
		}
	}
	dir, err := os.MkdirTemp("", "keypool-testbed-")
	return &Bed{programs: programs, dir: dir}, err
}

// Close ends what was started, the last first, and removes what it wrote.
func (b *Bed) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for len(b.started) > 0 {
		last := len(b.started) - 1
		errs = append(errs, b.started[last].Close())
		b.started = b.started[:last]
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

func (b *Bed) own(c closer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.started = append(b.started, c)
}

// Redis starts a Redis that keeps nothing on disk unless args say so. The error wraps
// [exec.ErrNotFound] where redis-server is not installed.
func (b *Bed) Redis(ctx context.Context, args ...string) (*Server, error) {
	return owned(b)(machine.StartRedis(ctx, append([]string{"--save", "", "--appendonly", "no"}, args...)...))
}

// Postgres starts a PostgreSQL that commits durably, as it does unless told otherwise. The
// error wraps [exec.ErrNotFound] where it is not installed.
func (b *Bed) Postgres(ctx context.Context, settings ...string) (*Server, error) {
	return owned(b)(machine.StartPostgres(ctx, settings...))
}

// owned is for the two results of whatever starts a server.
func owned(b *Bed) func(*Server, error) (*Server, error) {
	return func(s *Server, err error) (*Server, error) {
		if err == nil {
			b.own(s)
		}
		return s, err
	}
}

// Server starts `shortener` with the settings ("NAME=value"), ready to make links. Without
// DATABASE_URL among them it has an SQLite file of its own.
func (b *Bed) Server(ctx context.Context, settings ...string) (*Program, error) {
	return b.run(ctx, "shortener", settings, ready)
}

// ServerWhen is Server, but returns as soon as up does without an error, which is tried
// every few milliseconds.
func (b *Bed) ServerWhen(ctx context.Context, up func(context.Context, *Program) error, settings ...string) (*Program, error) {
	return b.run(ctx, "shortener", settings, up)
}

// Worker starts `kgs` with the settings ("NAME=value"), ready to refill.
func (b *Bed) Worker(ctx context.Context, settings ...string) (*Program, error) {
	return b.run(ctx, "kgs", settings, ready)
}
