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

// Setup is in what a server differs from an ordinary one.
type Setup struct {
	Clock bool // it has a clock of its own, which JumpClock sets; takes a C compiler
}

// clockSource is a library that stands between a server and its clock. libfaketime
// would do that too, but a Redis with jemalloc hangs at start with it.
//
//go:embed clock.c.txt
var clockSource []byte

// apply prepares s, whose directory is there, for its start.
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
	compile := exec.Command(compiler, "-shared", "-fPIC", "-DCLOCK="+strconv.Quote(s.clock), "-o", library, source) //nolint:noctx // takes no time
	if out, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("compile the clock: %w; it said:\n%s", err, out)
	}
	s.env = append(os.Environ(), "LD_PRELOAD="+library)
	return s.JumpClock(0)
}

// JumpClock sets the server's clock to the right time and d more, in whole seconds, at
// once and also while the server runs.
func (s *Server) JumpClock(d time.Duration) error {
	if s.clock == "" {
		return errors.New("the server has no clock of its own")
	}
	// Renamed into place, so that nobody reads half of it.
	next := s.clock + ".next"
	err := os.WriteFile(next, fmt.Appendln(nil, int64(d/time.Second)), 0o644) //nolint:gosec // for the server's user
	if err != nil {
		return err
	}
	return os.Rename(next, s.clock)
}
