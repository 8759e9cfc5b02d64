package machine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

// StartPostgres makes a database cluster, starts postgres on it with the further
// settings ("name=value") and returns when it answers. The error wraps
// [exec.ErrNotFound] when the programs are not installed.
//
// Postgres refuses to run as root; for root it runs as user postgres, or nobody.
func StartPostgres(ctx context.Context, settings ...string) (*Server, error) {
	return Setup{}.StartPostgres(ctx, settings...)
}

// StartPostgres is the function of that name for a server that is set up like this.
func (u Setup) StartPostgres(ctx context.Context, settings ...string) (*Server, error) {
	password := rand.Text() // other users of the machine can reach the port too
	return u.startPostgres(ctx, password, settings, func(s *Server) error { return initdb(ctx, s, password) })
}

// StartStandby starts a standby that streams from primary, which has to run. It knows
// what the primary knew when it was copied, and then follows; see [Promote].
func StartStandby(ctx context.Context, primary *Server, settings ...string) (*Server, error) {
	u, err := url.Parse(primary.URL)
	if err != nil {
		return nil, err
	}
	password, _ := u.User.Password()
	return Setup{}.startPostgres(ctx, password, settings, func(s *Server) error {
		return runAsOwner(ctx, s, "pg_basebackup", "--dbname", primary.URL,
			"--pgdata", filepath.Join(s.dir, "data"), "--write-recovery-conf", "--checkpoint", "fast", "--no-sync")
	})
}

// Promote makes a primary of a standby and returns when it takes writes.
func Promote(ctx context.Context, standby *Server) error {
	conn, err := pgx.Connect(ctx, standby.URL)
	if err != nil {
		return err
	}
	var promoted bool
	err = conn.QueryRow(ctx, "SELECT pg_promote()").Scan(&promoted)
	if err == nil && !promoted {
		err = errors.New("it is not promoted in time")
	}
	return errors.Join(err, conn.Close(ctx))
}

// startPostgres starts postgres over the cluster that fill makes.
func (u Setup) startPostgres(ctx context.Context, password string, settings []string, fill func(*Server) error) (*Server, error) {
	program, err := LookPath("postgres")
	if err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	owner, err := postgresUser()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "keypool-postgres-")
	if err != nil {
		return nil, err
	}
	addr := net.JoinHostPort(loopback, strconv.Itoa(port))
	s := &Server{
		Addr:     addr,
		URL:      fmt.Sprintf("postgres://postgres:%s@%s/postgres?sslmode=disable", password, addr),
		dir:      dir,
		program:  program,
		args:     postgresArgs(dir, port, settings),
		user:     owner,
		stopWith: syscall.SIGINT, // "fast": breaks connections off, then shuts down cleanly
		ping:     PingPostgres,
		tidy:     func() error { return removeSharedMemory(dir) },
	}
	if s.user != nil {
		err = os.Chown(dir, int(s.user.Uid), int(s.user.Gid))
	}
	if err == nil {
		err = fill(s)
	}
	if err == nil {
		err = u.apply(s)
	}
	if err == nil {
		err = s.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func postgresArgs(dir string, port int, settings []string) []string {
	args := []string{"-D", filepath.Join(dir, "data")}
	settings = append([]string{
		"listen_addresses=" + loopback,
		"port=" + strconv.Itoa(port),
		"unix_socket_directories=",
		"dynamic_shared_memory_type=mmap", // files in the data directory, which go with it
	}, settings...)
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

// removeSharedMemory removes the System V segment of a Postgres in dir that was killed. It
// is tiny, but a machine has room for no more than 4096 of them. Its key and its id are the
// seventh line of postmaster.pid, which one that is stopped in order takes with it.
func removeSharedMemory(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(lines) < 7 {
		return nil // there is none, or not yet
	}
	var key, id int
	if err == nil {
		_, err = fmt.Sscan(lines[6], &key, &id)
	}
	if err == nil {
		_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	}
	if err != nil {
		return fmt.Errorf("remove the shared memory of a killed Postgres: %w", err)
	}
	return nil
}

// initdb makes the cluster in s.dir with the superuser postgres.
func initdb(ctx context.Context, s *Server, password string) error {
	passwordFile := filepath.Join(s.dir, "password")
	if err := os.WriteFile(passwordFile, []byte(password), 0o600); err != nil {
		return err
	}
	if s.user != nil {
		if err := os.Chown(passwordFile, int(s.user.Uid), int(s.user.Gid)); err != nil {
			return err
		}
	}
	return runAsOwner(ctx, s, "initdb",
		"--pgdata", filepath.Join(s.dir, "data"), "--username", "postgres", "--pwfile", passwordFile,
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--no-locale", "--no-sync")
}

// runAsOwner runs one of the programs that come with Postgres as the user of s.
func runAsOwner(ctx context.Context, s *Server, name string, args ...string) error {
	program, err := LookPath(name)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.user, Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w; it said:\n%s", name, err, out)
	}
	return nil
}

// postgresUser is whom Postgres is to run as; nil for this process's own user.
func postgresUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	owner, err := user.Lookup("postgres")
	if err != nil {
		if owner, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("find a user for postgres, which must not run as root: %w", err)
		}
	}
	uid, err := strconv.ParseUint(owner.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(owner.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// PingPostgres says whether the Postgres at url takes queries.
func PingPostgres(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(conn.Ping(ctx), conn.Close(ctx))
}
