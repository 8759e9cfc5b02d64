package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"keypool/internal/testenv/machine"
)

// TestKeeperFindsWorkingServerOfEachEngine gets both servers in the way that TEST_SERVERS forces, or in the first way that
// works on this machine. CI runs this test once for each way.
func TestKeeperFindsWorkingServerOfEachEngine(t *testing.T) {
	t.Parallel()
	for _, e := range []engine{postgres, redis} {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			server, err := testFinder(t, os.Getenv("TEST_SERVERS")).find(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.ping(t.Context(), server.url); err != nil {
				t.Errorf("the server does not answer: %v", err)
			}
			if err := server.stop(); err != nil {
				t.Error(err)
			}
			named := os.Getenv(e.variable) == server.url // an existing server, which stop must not stop
			if err := e.ping(t.Context(), server.url); (err == nil) != named {
				t.Errorf("ping after stop: error %v", err)
			}
		})
	}
}

// TestKeeperTriesEnvironmentThenDockerThenMachine checks the order of the ways. The test makes the way docker, or docker
// and machine, fail.
func TestKeeperTriesEnvironmentThenDockerThenMachine(t *testing.T) {
	cannotPull := func(context.Context) (running, error) {
		return running{}, errors.New("pull redis:7-alpine: no route to host\nmore")
	}
	notInstalled := func(context.Context) (*machine.Server, error) { return nil, errors.New("redis-server: not found") }
	server, err := machine.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()

	for name, test := range map[string]struct {
		change func(*engine)
		url    string // value of the variable
		path   string // value of PATH, if not empty
		forced string
		want   string // must be in the error or the log
	}{
		"the environment names a server":                {url: server.URL, want: "way=env"},
		"the named server does not answer":              {url: "redis://127.0.0.1:1", want: "does not answer"},
		"the environment is forced but names no server": {forced: "env", want: "is not set"},
		"docker cannot pull the image":                  {change: func(e *engine) { e.container = cannotPull }, want: "way=machine"},
		"no way works": {
			change: func(e *engine) { e.container, e.process = cannotPull, notInstalled },
			path:   "/nowhere", // hides apt-get as well
			want:   "apt-get",
		},
		"docker is forced but cannot pull the image": {
			change: func(e *engine) { e.container = cannotPull },
			forced: "docker", want: "no route to host",
		},
		"the forced way is unknown": {forced: "podman", want: "it takes env, docker, machine or apt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(redis.variable, test.url)
			if test.path != "" {
				t.Setenv("PATH", test.path)
			}
			e := redis
			if test.change != nil {
				test.change(&e)
			}
			var log strings.Builder
			found, err := finder{log: slog.New(slog.NewTextHandler(&log, nil)), forced: test.forced}.find(t.Context(), e)
			said := log.String()
			if err == nil {
				t.Cleanup(func() {
					if err := found.stop(); err != nil {
						t.Error(err)
					}
				})
			} else {
				said = err.Error()
			}
			if !strings.Contains(said, test.want) {
				t.Errorf("the error or log is %q, want %q in it", said, test.want)
			}
		})
	}
}

func testFinder(t *testing.T, forced string) finder {
	return finder{log: slog.New(slog.NewTextHandler(t.Output(), nil)), forced: forced}
}
