package machine

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"syscall"
)

// Program is any other server: one of the project's own, or one to compare it with.
type Program struct {
	Path string
	Args []string
	Env  []string // all of its environment
	Dir  string   // where it runs, its owner's to remove
	URL  string
	Ping func(ctx context.Context, url string) error // whether it is up
}

// Start starts the program and returns when it is up. Close leaves its Dir alone.
func (p Program) Start(ctx context.Context) (*Server, error) {
	logs, err := os.MkdirTemp("", "keypool-program-")
	if err != nil {
		return nil, err
	}
	s := &Server{
		URL: p.URL, dir: logs, workDir: p.Dir, program: p.Path, args: p.Args,
		env:      append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}, p.Env...),
		stopWith: syscall.SIGTERM, ping: p.Ping,
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// FreeAddr finds an address of this machine on which nothing listens, and on which no
// outgoing connection will begin.
func FreeAddr(ctx context.Context) (string, error) {
	port, err := freePort(ctx)
	return net.JoinHostPort(loopback, strconv.Itoa(port)), err
}
