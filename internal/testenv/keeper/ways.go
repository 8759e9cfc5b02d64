package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"keypool/internal/testenv/machine"
)

// engine is a kind of server, with the functions that start and check such a server.
type engine struct {
	name     string
	variable string // the environment variable that holds the URL of an existing server
	program  string // the name of the program, and its key in the map needs

	container func(ctx context.Context) (running, error)
	process   func(ctx context.Context) (*machine.Server, error)
	ping      func(ctx context.Context, url string) error
}

// running is a server that accepts requests.
type running struct {
	url  string
	stop func() error
}

// These servers are fast, but may lose data in a crash. No test needs the data of these servers
// after a crash. A test of durability starts its own server.
var (
	postgres = engine{
		name: "postgres", variable: "TEST_DATABASE_URL", program: "postgres",
		container: postgresContainer,
		process: func(ctx context.Context) (*machine.Server, error) {
			return machine.StartPostgres(ctx, fastPostgres...)
		},
		ping: machine.PingPostgres,
	}
	redis = engine{
		name: "redis", variable: "TEST_REDIS_URL", program: "redis-server",
		container: redisContainer,
		process: func(ctx context.Context) (*machine.Server, error) {
			return machine.StartRedis(ctx, fastRedis...)
		},
		ping: machine.PingRedis,
	}
	// Packages are tested in parallel, and each test has its own connection pool, so the server needs
	// many connections.
	fastPostgres = []string{"fsync=off", "full_page_writes=off", "max_connections=400"}
	// Each call of testenv.RedisURL claims a logical database until its test ends.
	fastRedis = []string{"--save", "", "--appendonly", "no", "--databases", "1024"}
)

// ways are the ways to get a server, in the order in which find tries them.
var ways = []struct {
	name string
	try  func(ctx context.Context, e engine) (running, error)
}{
	{"env", fromEnvironment},
	{"docker", fromDocker},
	{"machine", fromMachine},
	{"apt", fromApt},
}

// finder gets a server in the first way that works, or in the forced way.
type finder struct {
	log    *slog.Logger
	forced string // the name of a way, or empty
}

func (f finder) find(ctx context.Context, e engine) (running, error) {
	forced := f.forced
	if forced == "" && os.Getenv(e.variable) != "" {
		forced = "env" // do not start another server if the named server does not answer
	}
	var errs []error
	for _, way := range ways {
		if forced != "" && forced != way.name {
			continue
		}
		server, err := way.try(ctx, e)
		if err == nil {
			f.log.Info("found or started a server for the tests", "engine", e.name, "way", way.name)
			return server, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", way.name, err))
		if ctx.Err() != nil {
			break
		}
		f.log.Info("cannot get a server in this way", "engine", e.name, "way", way.name, "reason", firstLine(err))
	}
	if len(errs) == 0 {
		return running{}, fmt.Errorf("TEST_SERVERS is %q; it takes env, docker, machine or apt", forced)
	}
	return running{}, fmt.Errorf("get a %s server: %w", e.name, errors.Join(errs...))
}

func fromEnvironment(ctx context.Context, e engine) (running, error) {
	url := os.Getenv(e.variable)
	if url == "" {
		return running{}, errors.New(e.variable + " is not set")
	}
	if err := e.ping(ctx, url); err != nil {
		return running{}, fmt.Errorf("the server that %s names does not answer: %w", e.variable, err)
	}
	return running{url: url, stop: func() error { return nil }}, nil
}

func fromDocker(ctx context.Context, e engine) (running, error) {
	server, err := e.container(ctx)
	if err != nil {
		return running{}, err
	}
	if err := e.ping(ctx, server.url); err != nil {
		return running{}, errors.Join(err, server.stop())
	}
	return server, nil
}

func fromMachine(ctx context.Context, e engine) (running, error) {
	server, err := e.process(ctx)
	if err != nil {
		return running{}, err
	}
	return running{url: server.URL, stop: server.Close}, nil
}

func fromApt(ctx context.Context, e engine) (running, error) {
	if err := machine.Install(ctx, needs[e.program].packages...); err != nil {
		return running{}, err
	}
	return fromMachine(ctx, e)
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
