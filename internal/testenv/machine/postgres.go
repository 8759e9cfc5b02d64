package machine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// StartPostgres makes a database cluster, starts postgres on it with the further
// settings ("name=value") and returns when it answers. The error wraps
// [exec.ErrNotFound] when the programs are not installed.
//
// Postgres refuses to run as root; for root it runs as user postgres, or nobody.
func StartPostgres(ctx context.Context, settings ...string) (*Server, error) {
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
	password := rand.Text() // other users of the machine can reach the port too
	s := &Server{
		Addr:     addr,
		URL:      fmt.Sprintf("postgres://postgres:%s@%s/postgres?sslmode=disable", password, addr),
		dir:      dir,
		program:  program,
		args:     postgresArgs(dir, port, settings),
		user:     owner,
		stopWith: syscall.SIGINT, // "fast": breaks connections off, then shuts down cleanly
		ping:     PingPostgres,
	}
	if err := initdb(ctx, s, password); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.start(ctx); err != nil {
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
	}, settings...)
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

// initdb makes the cluster in s.dir with the superuser postgres.
func initdb(ctx context.Context, s *Server, password string) error {
	passwordFile := filepath.Join(s.dir, "password")
	if err := os.WriteFile(passwordFile, []byte(password), 0o600); err != nil {
		return err
	}
	if s.user != nil {
		uid, gid := int(s.user.Uid), int(s.user.Gid)
		if err := errors.Join(os.Chown(s.dir, uid, gid), os.Chown(passwordFile, uid, gid)); err != nil {
			return err
		}
	}
	program, err := LookPath("initdb")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program,
		"--pgdata", filepath.Join(s.dir, "data"), "--username", "postgres", "--pwfile", passwordFile,
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--no-locale", "--no-sync")
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.user, Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w; it said:\n%s", err, out)
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
