// Package testenv gives tests real Postgres and Redis servers.
//
// [Postgres] and [Redis] give each test a place of its own on servers that many tests
// share: a schema, a logical database. The shared servers are those that
// TEST_DATABASE_URL and TEST_REDIS_URL name, as they do under `make test`; otherwise
// the test process has a keeper (package keeper) find or start them, and the keeper
// stops them when the process ends, however it ends. [StartPostgres] and [StartRedis]
// give a test a whole server, to be killed, frozen and restarted.
//
// Nothing is ever skipped: a test that cannot have its server fails and says why.
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

// setupTimeout bounds what is done for one test before and after it.
const setupTimeout = time.Minute

// Main is what TestMain calls in a package that uses servers: it runs the tests,
// stops what they shared, fails when a goroutine is left, and exits.
func Main(m *testing.M) {
	code := m.Run()
	err := errors.Join(postgres.stop(), redisServer.stop())
	if code == 0 {
		err = errors.Join(err, goleak.Find())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		code = 1
	}
	os.Exit(code) //nolint:forbidigo // for TestMain
}

// The servers that the tests of this process share. They are the package's only
// state: a test function has no other place to find what an earlier one started.
var (
	postgres    = &sharedServer{engine: "postgres", variable: "TEST_DATABASE_URL"}
	redisServer = &sharedServer{engine: "redis", variable: "TEST_REDIS_URL"}
)

// sharedServer is found or started when a test first asks for it.
type sharedServer struct {
	engine   string
	variable string

	once   sync.Once
	url    string
	err    error
	keeper *exec.Cmd
	hold   io.Closer // the keeper's standard input: it stops the server when this closes
}

// URL returns where the server is; it fails the test when there is none.
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
	// A program of its own rather than a call: it outlives a killed test process for
	// as long as it needs to clean up, and spares every test binary the Docker client.
	keeper := exec.Command("go", "run", "keypool/internal/testenv/keeper", "serve", s.engine) //nolint:noctx // until stop
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
		return "", fmt.Errorf("the keeper gave up (%w); its words are above", err)
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

// setup is the context for what is done around a test. It is not the test's own,
// which is cancelled before the cleanups run.
func setup(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), setupTimeout)
}
