package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// StartPgBouncer starts a PgBouncer in transaction mode in front of a PostgreSQL. It returns when PgBouncer
// forwards queries. PgBouncer uses its connections to the server in turn, so consecutive transactions of a client
// use different connections. Like many poolers, it ignores the parameters search_path and options of a client. The error
// wraps [exec.ErrNotFound] if the program is not installed.
func StartPgBouncer(ctx context.Context, postgres *Server) (*Server, error) {
	program, err := LookPath("pgbouncer")
	if err != nil {
		return nil, err
	}
	behind, err := url.Parse(postgres.URL)
	if err != nil {
		return nil, err
	}
	password, _ := behind.User.Password()
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	owner, err := postgresUser() // PgBouncer also refuses to run as root
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "keypool-pgbouncer-")
	if err != nil {
		return nil, err
	}
	addr, file := net.JoinHostPort(loopback, strconv.Itoa(port)), filepath.Join(dir, "pgbouncer.ini")
	s := &Server{
		Addr: addr, URL: fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", addr),
		dir: dir, program: program, args: []string{file}, user: owner, stopWith: syscall.SIGTERM, ping: PingPostgres,
	}
	config := fmt.Sprintf(`[databases]
postgres = host=%s port=%s user=postgres password=%s
[pgbouncer]
listen_addr = %s
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
server_round_robin = 1
max_client_conn = 1000
ignore_startup_parameters = search_path, options
`, behind.Hostname(), behind.Port(), password, loopback, port)
	err = os.WriteFile(file, []byte(config), 0o600)
	if err == nil && owner != nil {
		err = errors.Join(os.Chown(dir, int(owner.Uid), int(owner.Gid)), os.Chown(file, int(owner.Uid), int(owner.Gid)))
	}
	if err == nil {
		err = s.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
