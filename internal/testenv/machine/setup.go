package machine

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// Setup contains options of a server.
type Setup struct {
	Clock bool // the server has its own clock, which JumpClock sets; needs gcc

	programs string // directory of the PostgreSQL programs; if empty, LookPath finds them
}

func (u Setup) lookPath(program string) (string, error) {
	if u.programs == "" {
		return LookPath(program)
	}
	return exec.LookPath(filepath.Join(u.programs, program))
}

// clockSource is the source of a C library that replaces the clock functions of a server.
// libfaketime is such a library too, but it makes a Redis with jemalloc hang at start.
//
//go:embed clock.c.txt
var clockSource []byte

// apply gives s its own clock if Clock is true. The directory of s must exist.
func (u Setup) apply(s *Server) error {
	if !u.Clock {
		return nil
	}
	s.clock = filepath.Join(s.dir, "clock")
	source, library := s.clock+".c", s.clock+".so"
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		return err
	}
	compiler, err := LookPath("gcc")
	if err != nil {
		return err
	}
	compile := exec.Command(compiler, "-shared", "-fPIC", "-DCLOCK="+strconv.Quote(s.clock), "-o", library, source) //nolint:noctx // takes little time
	if out, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("compile the clock: %w; it said:\n%s", err, out)
	}
	s.env = append(os.Environ(), "LD_PRELOAD="+library)
	return s.JumpClock(0)
}

// JumpClock sets the server's clock to the real time plus d, in whole seconds. The change takes
// effect at once, even while the server runs.
func (s *Server) JumpClock(d time.Duration) error {
	if s.clock == "" {
		return errors.New("the server has no clock of its own")
	}
	// Write a new file and rename it, so that the server never reads half of the number.
	next := s.clock + ".next"
	err := os.WriteFile(next, fmt.Appendln(nil, int64(d/time.Second)), 0o644) //nolint:gosec // the server may run as another user, who must read it
	if err != nil {
		return err
	}
	return os.Rename(next, s.clock)
}
