package machine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/jackc/pgx/v5"
)

// Cluster is a Citus cluster: a coordinator and workers, each of which is a PostgreSQL with the extension citus.
type Cluster struct {
	Coordinator *Server
	Workers     []*Server

	password string
	settings []string
}

// errNoCitus reports that the PostgreSQL on this machine has no Citus. It wraps [exec.ErrNotFound].
var errNoCitus = fmt.Errorf("the library citus.so of PostgreSQL: %w", exec.ErrNotFound)

// CitusInstalled returns nil if the PostgreSQL on this machine has the library of Citus. Otherwise the error wraps
// [exec.ErrNotFound].
func CitusInstalled() error {
	postgres, err := LookPath("postgres")
	if err != nil {
		return err
	}
	if postgres, err = filepath.EvalSymlinks(postgres); err != nil {
		return err
	}
	// Debian has /usr/lib/postgresql/15/bin/postgres and /usr/lib/postgresql/15/lib; a build from source has bin and lib/postgresql.
	for _, lib := range []string{"lib", "lib/postgresql"} {
		if _, err := os.Stat(filepath.Join(filepath.Dir(filepath.Dir(postgres)), lib, "citus.so")); err == nil {
			return nil
		}
	}
	return errNoCitus
}

// StartCitus starts a coordinator and a number of workers, each with additional settings ("name=value"). Only the workers
// have shards. The error wraps [exec.ErrNotFound] if PostgreSQL or Citus is not installed.
func StartCitus(ctx context.Context, workers int, settings ...string) (_ *Cluster, err error) {
	if err := CitusInstalled(); err != nil {
		return nil, err
	}
	c := &Cluster{password: rand.Text(), settings: settings}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if c.Coordinator, err = c.start(ctx); err != nil {
		return nil, err
	}
	if err := c.execute(ctx, `SELECT citus_set_coordinator_host($1, $2)`, c.Coordinator); err != nil {
		return nil, err
	}
	for range workers {
		if _, err := c.AddWorker(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// AddWorker starts a worker and adds it to the cluster. It has no shards until the cluster is rebalanced.
func (c *Cluster) AddWorker(ctx context.Context) (*Server, error) {
	worker, err := c.start(ctx)
	if err != nil {
		return nil, err
	}
	c.Workers = append(c.Workers, worker)
	return worker, c.execute(ctx, `SELECT citus_add_node($1, $2)`, worker)
}

// Close kills all servers and removes their data.
func (c *Cluster) Close() (err error) {
	for _, s := range append([]*Server{c.Coordinator}, c.Workers...) {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return err
}

// start starts a PostgreSQL with the extension. All nodes have the same password, which they find in their environment
// when they connect to each other.
func (c *Cluster) start(ctx context.Context) (*Server, error) {
	settings := append([]string{"shared_preload_libraries=citus", "citus.node_conninfo=sslmode=prefer", "wal_level=logical"}, c.settings...)
	s, err := Setup{}.startPostgres(ctx, c.password, settings, func(s *Server) error {
		// PostgreSQL looks for certificates in HOME, which a server that runs as another user cannot read.
		s.env = append(os.Environ(), "PGPASSWORD="+c.password, "HOME="+s.dir)
		return initdb(ctx, s, c.password)
	})
	if err != nil {
		return nil, err
	}
	if err := on(ctx, s, `CREATE EXTENSION citus`); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// execute runs a statement on the coordinator, whose parameters are the host and the port of a node.
func (c *Cluster) execute(ctx context.Context, statement string, node *Server) error {
	config, err := pgx.ParseConfig(node.URL)
	if err != nil {
		return err
	}
	return on(ctx, c.Coordinator, statement, config.Host, int(config.Port))
}

func on(ctx context.Context, s *Server, statement string, args ...any) error {
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement, args...)
	return errors.Join(err, conn.Close(ctx))
}
