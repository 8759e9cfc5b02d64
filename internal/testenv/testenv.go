// Package testenv provides real PostgreSQL and Redis servers to tests.
//
// [Postgres] and [Redis] give each test its own schema or logical database on servers that many
// tests share. TEST_DATABASE_URL and TEST_REDIS_URL name these servers; `make test` sets these
// variables. Without these variables, the test process starts the program keeper, which finds or starts
// the servers. When the test process ends for any reason, the keeper stops the servers that it started.
// [StartPostgres] and [StartRedis] give a test its own server, which the test can kill, freeze and
// restart.
//
// No test is skipped. A test fails with a reason if it cannot get its server.
package testenv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// setupTimeout limits the work before and after one test.
const setupTimeout = time.Minute

// Main runs the tests of a package, stops the shared servers, checks for leaked goroutines and
// exits. If the tests of a package use the shared servers, its TestMain must call Main.
func Main(m *testing.M) {
	code := m.Run()
	err := errors.Join(postgres.stop(), redisServer.stop())
	if code == 0 {
		err = errors.Join(err, findLeak())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		code = 1
	}
	os.Exit(code) //nolint:forbidigo // runs only in TestMain
}

// findLeak waits for the goroutines that end soon after the tests. For example, if a client of Redis cannot reach its
// server, a goroutine of the client ends up to a second after the client is closed. findLeak returns an error if a
// goroutine still runs after a minute.
func findLeak() error {
	for deadline := time.Now().Add(setupTimeout); ; {
		if err := goleak.Find(); err == nil || time.Now().After(deadline) { // each Find waits for about 0.4 s
			return err
		}
	}
}

// These are the servers that the tests of this process share. They are global variables, so that a
// test finds the servers that an earlier test started.
var (
	postgres    = &sharedServer{engine: "postgres", variable: "TEST_DATABASE_URL"}
	redisServer = &sharedServer{engine: "redis", variable: "TEST_REDIS_URL"}
)

// sharedServer is found or started at the first call of URL.
type sharedServer struct {
	engine   string
	variable string

	once   sync.Once
	url    string
	err    error
	keeper *exec.Cmd
	hold   io.Closer // the keeper's standard input; the keeper stops the server when hold is closed
}

// URL returns the URL of the server. It fails the test if there is no server.
func (s *sharedServer) URL(t testing.TB) string {
	t.Helper()
	s.once.Do(func() { s.url, s.err = s.find() })
	if s.err != nil {
		t.Fatalf("no %s for the tests: %v", s.engine, s.err)
	}
	return s.url
}

func (s *sharedServer) find() (string, error) {
	way := os.Getenv("TEST_SERVERS")
	if url := os.Getenv(s.variable); url != "" && (way == "" || way == "env") {
		return url, nil
	}
	// The keeper is a separate program for two reasons. First, it can stop the servers after the test
	// process was killed. Second, test binaries do not have to link the Docker client.
	keeper := exec.Command("go", "run", "keypool/internal/testenv/keeper", "serve", s.engine) //nolint:noctx // runs until stop
	keeper.Stderr = os.Stderr
	hold, err := keeper.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := keeper.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := keeper.Start(); err != nil {
		return "", err
	}
	s.keeper, s.hold = keeper, hold
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the keeper printed no URL (%w); its log is above", err)
	}
	return strings.TrimSpace(url), nil
}

func (s *sharedServer) stop() error {
	if s.keeper == nil {
		return nil
	}
	if err := errors.Join(s.hold.Close(), s.keeper.Wait()); err != nil {
		return fmt.Errorf("stop %s: %w", s.engine, err)
	}
	return nil
}

// setup returns a context for the preparation and the cleanup of a test. The test's own context is
// cancelled before the cleanups run.
func setup(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), setupTimeout)
}
