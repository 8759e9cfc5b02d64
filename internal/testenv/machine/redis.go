package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	"github.com/redis/go-redis/v9"

	"keypool/internal/proc"
)

const loopback = "127.0.0.1"

// freePort returns a port for a server. Package loadtest/lab uses lower ports, so the two packages
// never take the same port.
func freePort() (int, error) { return proc.FreePort(20_000, 32_000) }

// StartRedis starts a redis-server with additional options ("--name", "value"). It returns when
// the server accepts commands. The error wraps [exec.ErrNotFound] if the program is not
// installed.
func StartRedis(ctx context.Context, args ...string) (*Server, error) {
	return Setup{}.StartRedis(ctx, args...)
}

// StartRedis does the same as the function [StartRedis], but with the options in u.
func (u Setup) StartRedis(ctx context.Context, args ...string) (*Server, error) {
	return u.startRedis(ctx, func(dir, port string) ([]string, error) {
		return append([]string{"--bind", loopback, "--port", port, "--dir", dir}, args...), nil
	})
}

// startRedis starts a redis-server in a directory of its own. args returns the arguments of the
// program.
func (u Setup) startRedis(ctx context.Context, args func(dir, port string) ([]string, error)) (*Server, error) {
	program, err := LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "keypool-redis-")
	if err != nil {
		return nil, err
	}
	addr := net.JoinHostPort(loopback, strconv.Itoa(port))
	s := &Server{Addr: addr, URL: "redis://" + addr, dir: dir, program: program, stopWith: syscall.SIGTERM, ping: PingRedis}
	if s.args, err = args(dir, strconv.Itoa(port)); err == nil {
		err = errors.Join(u.apply(s), s.start(ctx))
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// PingRedis returns nil if the Redis at url accepts commands.
func PingRedis(ctx context.Context, url string) error {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return fmt.Errorf("parse the URL of Redis: %w", err)
	}
	opts.MaxRetries = -1
	opts.DialerRetries = 1 // the caller retries sooner than the client would
	client := redis.NewClient(opts)
	return errors.Join(client.Ping(ctx).Err(), client.Close())
}
