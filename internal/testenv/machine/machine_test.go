package machine_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"keypool/internal/testenv/machine"
)

// bothEnginesInAChild is an environment variable. If it is set, the test binary starts a Redis and a
// PostgreSQL, and waits until it is killed.
const bothEnginesInAChild = "MACHINE_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(bothEnginesInAChild) != "" {
		os.Exit(startAndHang())
	}
	goleak.VerifyTestMain(m)
}

type starter func(ctx context.Context, args ...string) (*machine.Server, error)

func start(t *testing.T, run starter, args ...string) *machine.Server {
	t.Helper()
	s, err := run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestPostgresKeepsCommittedRowsAfterRestart(t *testing.T) {
	t.Parallel()
	s := start(t, machine.StartPostgres)
	execute(t, s.URL, "CREATE TABLE links (code text)")

	for name, end := range map[string]func() error{"kill": s.Kill, "stop": s.Stop, "still running": func() error { return nil }} {
		execute(t, s.URL, "INSERT INTO links VALUES ($1)", name)
		if err := end(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := s.Restart(t.Context()); err != nil {
			t.Fatalf("restart after %s: %v", name, err)
		}
		if n := execute(t, s.URL, "DELETE FROM links WHERE code = $1", name); n != 1 {
			t.Errorf("after %s: %d rows are left, want 1", name, n)
		}
	}
}

// TestClosedPostgresLeavesNoSharedMemory checks that Close removes the shared memory segment
// that a killed PostgreSQL leaves.
func TestClosedPostgresLeavesNoSharedMemory(t *testing.T) {
	t.Parallel()
	s, err := machine.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(s.Dir(), "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	var key, id int
	if _, err := fmt.Sscan(strings.Split(string(text), "\n")[6], &key, &id); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.SysvShmCtl(id, unix.IPC_STAT, new(unix.SysvShmDesc)); err != nil {
		t.Errorf("the killed server left no shared memory (%v), so this test proves nothing", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := unix.SysvShmCtl(id, unix.IPC_STAT, new(unix.SysvShmDesc)); !errors.Is(err, unix.EINVAL) {
		t.Errorf("the closed server left its shared memory: %v", err)
	}
}

func TestRedisKeepsKeysAfterKillOnlyIfAppendOnly(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want int64
	}{
		"append only": {args: []string{"--appendonly", "yes", "--appendfsync", "always"}, want: 1},
		"in memory":   {args: []string{"--appendonly", "no", "--save", ""}, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, machine.StartRedis, test.args...)
			client := redis.NewClient(&redis.Options{Addr: s.Addr})
			defer client.Close()
			if err := client.Set(t.Context(), "key", "value", 0).Err(); err != nil {
				t.Fatal(err)
			}
			if err := s.Kill(); err != nil || s.Ended() == nil {
				t.Fatalf("killed: error %v, ended with %v", err, s.Ended())
			}
			if err := s.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := client.DBSize(t.Context()).Val(); n != test.want {
				t.Errorf("%d keys after a kill, want %d", n, test.want)
			}
			if err := s.Stop(); err != nil || s.Ended() != nil {
				t.Errorf("stopped: error %v, ended with %v", err, s.Ended())
			}
		})
	}
}

func TestPausedServerAnswersOnlyAfterResume(t *testing.T) {
	t.Parallel()
	for name, engine := range map[string]struct {
		run  starter
		ping func(context.Context, string) error
	}{
		"redis":    {machine.StartRedis, machine.PingRedis},
		"postgres": {machine.StartPostgres, machine.PingPostgres},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, engine.run)
			if err := s.Pause(); err != nil {
				t.Fatal(err)
			}
			short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := engine.ping(short, s.URL); err == nil {
				t.Error("a paused server answers")
			}
			if err := s.Resume(); err != nil {
				t.Fatal(err)
			}
			if err := engine.ping(t.Context(), s.URL); err != nil {
				t.Errorf("a resumed server does not answer: %v", err)
			}
			// A frozen server can still be stopped and killed.
			if err := errors.Join(s.Pause(), s.Stop(), s.Restart(t.Context()), s.Pause(), s.Kill()); err != nil {
				t.Error(err)
			}
			if err := s.Pause(); err == nil {
				t.Error("Pause on a server that is down gave no error")
			}
		})
	}
}

func TestPostgresPauseFreezesOpenConnections(t *testing.T) {
	t.Parallel()
	s := start(t, machine.StartPostgres)
	conn, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := conn.Ping(short); err == nil {
		t.Error("a backend of a paused server answers")
	}
}

func TestStartErrorContainsServerLog(t *testing.T) {
	t.Parallel()
	_, err := machine.StartRedis(t.Context(), "--no-such-option", "yes")
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("error %v does not contain the server's log", err)
	}
	_, err = machine.StartPostgres(t.Context(), "no_such_setting=1")
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("error %v does not contain the server's log", err)
	}
}

// TestServersEndWhenParentProcessIsKilled kills a process that started servers. The kernel must then end
// the servers.
func TestServersEndWhenParentProcessIsKilled(t *testing.T) {
	t.Parallel()
	// The child is killed and cannot remove its files, so it keeps them in a directory that this test removes.
	left, err := os.MkdirTemp("", "keypool-killed-") //nolint:usetesting // the user of postgres cannot enter TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(left) }) // cleanup only; its error does not affect the result
	if err := os.Chmod(left, 0o755); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), bothEnginesInAChild+"=1", "TMPDIR="+left)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var addrs []string
	lines := bufio.NewScanner(out)
	for len(addrs) < 2 && lines.Scan() {
		addrs = append(addrs, lines.Text())
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); len(addrs) != 2 {
		t.Fatalf("the child started %d servers: %v", len(addrs), err)
	}
	for _, addr := range addrs {
		awaitRefusal(t, addr)
	}
}

// startAndHang starts two servers, prints their addresses and waits to be killed.
func startAndHang() int {
	for _, run := range []starter{machine.StartRedis, machine.StartPostgres} {
		s, err := run(context.Background())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(s.Addr)
	}
	select {}
}

func awaitRefusal(t *testing.T, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if err == nil {
			err = conn.Close()
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the server at %s is still running: %v", addr, err)
		case <-tick.C:
		}
	}
}

func execute(t *testing.T, url, sql string, args ...any) (rows int64) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := conn.Exec(t.Context(), sql, args...)
	if err := errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	return tag.RowsAffected()
}
