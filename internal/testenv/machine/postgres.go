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

// StartPostgres creates a database cluster and starts postgres on it, with additional settings
// ("name=value"). It returns when the server accepts queries. The error wraps
// [exec.ErrNotFound] if the programs are not installed.
//
// PostgreSQL refuses to run as root. If this process runs as root, the server runs as the user
// postgres, or as the user nobody if there is no user postgres.
func StartPostgres(ctx context.Context, settings ...string) (*Server, error) {
	return Setup{}.StartPostgres(ctx, settings...)
}

// StartPostgres does the same as the function [StartPostgres], but with the options in u.
func (u Setup) StartPostgres(ctx context.Context, settings ...string) (*Server, error) {
	password := rand.Text() // other users of the machine can also reach the port
	return u.startPostgres(ctx, password, settings, func(s *Server) error { return u.initdb(ctx, s, password) })
}

// StartStandby starts a standby that streams from primary, which must be running. The standby
// begins with a copy of the primary's data and then follows the primary; see [Promote].
func StartStandby(ctx context.Context, primary *Server, settings ...string) (*Server, error) {
	u, err := url.Parse(primary.URL)
	if err != nil {
		return nil, err
	}
	password, _ := u.User.Password()
	setup := Setup{}
	return setup.startPostgres(ctx, password, settings, func(s *Server) error {
		return setup.runAsOwner(ctx, s, "pg_basebackup", "--dbname", primary.URL,
			"--pgdata", filepath.Join(s.dir, "data"), "--write-recovery-conf", "--checkpoint", "fast", "--no-sync")
	})
}

// Promote turns a standby into a primary. It returns when the server accepts writes.
func Promote(ctx context.Context, standby *Server) error {
	conn, err := pgx.Connect(ctx, standby.URL)
	if err != nil {
		return err
	}
	var promoted bool
	err = conn.QueryRow(ctx, "SELECT pg_promote()").Scan(&promoted)
	if err == nil && !promoted {
		err = errors.New("the standby was not promoted in time")
	}
	return errors.Join(err, conn.Close(ctx))
}

// startPostgres starts postgres on the database cluster that fill creates in Server.dir.
func (u Setup) startPostgres(ctx context.Context, password string, settings []string, fill func(*Server) error) (*Server, error) {
	program, err := u.lookPath("postgres")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
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
		stopWith: syscall.SIGINT, // fast shutdown, which ends all connections and then shuts down cleanly
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
		"dynamic_shared_memory_type=mmap", // keeps the memory in files of the data directory, which Close removes
	}, settings...)
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

// removeSharedMemory removes the System V shared memory segment of a killed PostgreSQL in dir. The
// segment is tiny, but a machine has room for only 4096 segments. The seventh line of postmaster.pid
// contains the key and the id of the segment. A clean shutdown removes the segment and that file.
func removeSharedMemory(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(lines) < 7 {
		return nil // there is no segment
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

// initdb creates the database cluster in s.dir with the superuser postgres.
func (u Setup) initdb(ctx context.Context, s *Server, password string) error {
	passwordFile := filepath.Join(s.dir, "password")
	if err := os.WriteFile(passwordFile, []byte(password), 0o600); err != nil {
		return err
	}
	if s.user != nil {
		if err := os.Chown(passwordFile, int(s.user.Uid), int(s.user.Gid)); err != nil {
			return err
		}
	}
	return u.runAsOwner(ctx, s, "initdb",
		"--pgdata", filepath.Join(s.dir, "data"), "--username", "postgres", "--pwfile", passwordFile,
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--no-locale", "--no-sync")
}

// runAsOwner runs a program of the PostgreSQL installation as the user of s.
func (u Setup) runAsOwner(ctx context.Context, s *Server, name string, args ...string) error {
	program, err := u.lookPath(name)
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

// postgresUser returns the user that PostgreSQL must run as, or nil for the user of this
// process.
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

// PingPostgres returns nil if the PostgreSQL at url accepts queries.
func PingPostgres(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(conn.Ping(ctx), conn.Close(ctx))
}
