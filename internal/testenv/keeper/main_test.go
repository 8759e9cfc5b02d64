package main

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"keypool/internal/testenv/machine"
)

// playKeeper is an environment variable. If it is set, the test binary runs as the keeper.
const playKeeper = "KEEPER_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(playKeeper) != "" {
		main()
	}
	os.Exit(m.Run())
}

func keeper(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), playKeeper+"=1", "TEST_SERVERS=machine")
	cmd.Stderr = t.Output()
	return cmd
}

func TestKeeperRunPassesServerURLsAndReturnsCommandStatus(t *testing.T) {
	t.Parallel()
	cmd := keeper(t, "run", "sh", "-c", `echo "$TEST_SERVERS $TEST_DATABASE_URL $TEST_REDIS_URL"; exit 7`)
	out, err := cmd.Output()
	fields := strings.Fields(string(out))
	if len(fields) != 3 || fields[0] != "env" ||
		!strings.HasPrefix(fields[1], "postgres://") || !strings.HasPrefix(fields[2], "redis://") {
		t.Errorf("the command printed %q", out)
	}
	if cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("the keeper ended with %v, want the command's status 7", err)
	}
	if out, err := keeper(t, "run", filepath.Join(t.TempDir(), "none")).Output(); err == nil {
		t.Errorf("a missing command gave no error; output %q", out)
	}
}

// TestKeeperRunRemovesTemporaryFiles checks that the temporary files of the command are removed when the
// command ends.
func TestKeeperRunRemovesTemporaryFiles(t *testing.T) {
	t.Parallel()
	cmd := keeper(t, "run", "sh", "-c", `mktemp -d; stat -c %a "$TMPDIR"; echo "$GOTMPDIR"`)
	cmd.Env = append(cmd.Env, "TMPDIR=", "GOTMPDIR=")
	room := hasRoom(inMemory)
	out, err := cmd.Output()
	if room && err != nil {
		t.Fatal(err)
	}
	made, rest, _ := strings.Cut(string(out), "\n")
	if !room {
		if err := os.Remove(made); err != nil || strings.TrimSpace(rest) != "" {
			t.Errorf("without room in /dev/shm, the keeper must not set TMPDIR and GOTMPDIR: remove error %v; mode and GOTMPDIR are %q, want none", err, rest)
		}
		return
	}
	// Mode 711 lets a server that runs as another user enter the directory.
	if _, err := os.Stat(made); !strings.HasPrefix(made, inMemory) || !errors.Is(err, fs.ErrNotExist) || rest != "711\n/tmp\n" {
		t.Errorf("directory %s: stat error %v, mode and GOTMPDIR are %q", made, err, rest)
	}
}

// TestKeeperRunStopsCommandBeforeServers interrupts the keeper. The command must still reach its
// servers while it ends.
func TestKeeperRunStopsCommandBeforeServers(t *testing.T) {
	t.Parallel()
	cmd := keeper(t, "run", "sh", "-c",
		`trap 'redis-cli -u "$TEST_REDIS_URL" ping; exit 0' INT; echo ready; while :; do sleep 0.05; done`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the command printed %q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if string(rest) != "PONG\n" || err != nil {
		t.Errorf("the interrupted command got %q from Redis, %v; want PONG", rest, err)
	}
	// The keeper must fail after an interrupt, even if the command exits with status 0.
	if err := cmd.Wait(); err == nil {
		t.Error("the keeper reports success")
	}
}

func TestCommandServeOfKeeperStopsServerWhenInputEnds(t *testing.T) {
	t.Parallel()
	cmd := keeper(t, "serve", "redis")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(line)
	if err := machine.PingRedis(t.Context(), url); err != nil {
		t.Errorf("the server does not answer: %v", err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the keeper ended with %v", err)
	}
	if err := machine.PingRedis(t.Context(), url); err == nil {
		t.Error("the server is still running")
	}
}

// TestKeeperServeStartsLocalProgramIfContainerImageIsUnavailable sets a registry that does not answer as the source of the
// container images. The keeper must then start the server from the programs of the machine.
func TestKeeperServeStartsLocalProgramIfContainerImageIsUnavailable(t *testing.T) {
	t.Parallel()
	cmd := keeper(t, "serve", "redis")
	cmd.Env = append(cmd.Env, "TEST_SERVERS=", "TEST_REDIS_URL=", "TESTCONTAINERS_HUB_IMAGE_NAME_PREFIX=127.0.0.1:1")
	var log strings.Builder
	cmd.Stderr = &log
	cmd.Stdin = strings.NewReader("")
	if err := cmd.Run(); err != nil {
		t.Errorf("the keeper ended with %v", err)
	}
	for _, want := range []string{`msg="cannot get a server in this way" engine=redis way=docker`, `msg="found or started a server for the tests" engine=redis way=machine`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not contain %q:\n%s", want, log.String())
		}
	}
}

func TestKeeperCommandNeedRefusesUnknownProgram(t *testing.T) {
	t.Parallel()
	if err := keeper(t, "need", "redis-server", "postgres").Run(); err != nil {
		t.Errorf("need of installed programs: %v", err)
	}
	if err := keeper(t, "need", "unheard-of").Run(); err == nil {
		t.Error("need of an unknown program gave no error")
	}
}

func TestKeeperExitsWithStatus2OnInvalidArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"run"}, {"serve"}, {"serve", "mysql"}} {
		cmd := keeper(t, args...)
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("%q: %v, want exit status 2", args, err)
		}
	}
}
