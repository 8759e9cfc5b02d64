package machine

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"syscall"
)

// Program is a server other than PostgreSQL and Redis: a program of this project, or a program with
// which the project is compared.
type Program struct {
	Path string
	Args []string
	Env  []string // the whole environment, except PATH and TMPDIR
	Dir  string   // the working directory; the caller removes it
	URL  string
	Ping func(ctx context.Context, url string) error // returns nil when the program is up
}

// Start starts the program and returns when it is up. The method Close of the returned Server does not remove Dir.
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

// FreeAddr finds a local address on which no process listens and which no outgoing connection
// can take.
func FreeAddr() (string, error) {
	port, err := freePort()
	return net.JoinHostPort(loopback, strconv.Itoa(port)), err
}
