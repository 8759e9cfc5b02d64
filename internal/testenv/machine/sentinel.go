package machine

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// StartSentinel starts a Sentinel that watches the Redis at the address master under the name main,
// with additional lines of its configuration. It takes the Redis for down after half a second. The
// caller closes the server.
func StartSentinel(ctx context.Context, master string, lines ...string) (*Server, error) {
	program, err := LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "keypool-sentinel-")
	if err != nil {
		return nil, err
	}
	host, masterPort, err := net.SplitHostPort(master)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "sentinel.conf") // Sentinel also writes to this file
	text := strings.Join(append([]string{
		"port " + strconv.Itoa(port), "bind " + loopback, "sentinel monitor main " + host + " " + masterPort + " 1",
		"sentinel down-after-milliseconds main 500", "sentinel failover-timeout main 1000",
	}, lines...), "\n") + "\n"
	addr := net.JoinHostPort(loopback, strconv.Itoa(port))
	s := &Server{
		Addr: addr, URL: "redis://" + addr, dir: dir, program: program, args: []string{config, "--sentinel"},
		stopWith: syscall.SIGTERM, ping: PingRedis,
	}
	if err := errors.Join(os.WriteFile(config, []byte(text), 0o600), s.start(ctx)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
