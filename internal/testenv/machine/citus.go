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
	setup    Setup
}

// errNoCitus reports that the PostgreSQL of this machine has no Citus, and that InstallCitus has made no copy. It
// wraps [exec.ErrNotFound].
var errNoCitus = fmt.Errorf("PostgreSQL with the library citus.so: %w", exec.ErrNotFound)

const (
	// citusImage has PostgreSQL and Citus, built for Debian.
	citusImage = "citusdata/citus:13.0"
	// citusCopy is the directory to which InstallCitus copies PostgreSQL and Citus.
	citusCopy = "/var/cache/keypool/citus-13.0"
)

// FindCitus returns the directory of the programs of a PostgreSQL with Citus. It looks for the PostgreSQL of this
// machine first, and then for the copy that [InstallCitus] made. If neither has Citus, the error wraps
// [exec.ErrNotFound].
func FindCitus() (programs string, err error) {
	found, err := filepath.Glob(citusCopy + "/usr/lib/postgresql/[0-9]*/bin/postgres")
	if err != nil {
		return "", err
	}
	if local, err := LookPath("postgres"); err == nil {
		found = append([]string{local}, found...)
	}
	for _, postgres := range found {
		if postgres, err = filepath.EvalSymlinks(postgres); err != nil {
			return "", err
		}
		programs := filepath.Dir(postgres)
		// Debian has /usr/lib/postgresql/15/bin and /usr/lib/postgresql/15/lib; a build from source has bin and
		// lib/postgresql.
		for _, lib := range []string{"../lib", "../lib/postgresql"} {
			if _, err := os.Stat(filepath.Join(programs, lib, "citus.so")); err == nil {
				return programs, nil
			}
		}
	}
	return "", errNoCitus
}

// InstallCitus copies PostgreSQL with Citus out of its public image, because no package of Debian contains Citus. The
// copy works in another directory, because PostgreSQL finds its files relative to its programs. InstallCitus needs a
// Docker engine, and the copy needs the libraries of Debian's package postgresql.
func InstallCitus(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	copied := exec.CommandContext(ctx, "docker", "run", "--rm", "--volume", citusCopy+":/copy", "--entrypoint", "sh", citusImage, "-c",
		"mkdir -p /copy/usr/lib /copy/usr/share && cp -rL /usr/lib/postgresql /copy/usr/lib && cp -rL /usr/share/postgresql /copy/usr/share")
	if out, err := copied.CombinedOutput(); err != nil {
		return fmt.Errorf("copy Citus out of the image %s: %w; docker said:\n%s", citusImage, err, out)
	}
	_, err := FindCitus()
	return err
}

// StartCitus starts a coordinator and a number of workers, each with additional settings ("name=value"). Only the workers
// have shards. The error wraps [exec.ErrNotFound] if PostgreSQL or Citus is not installed.
func StartCitus(ctx context.Context, workers int, settings ...string) (_ *Cluster, err error) {
	programs, err := FindCitus()
	if err != nil {
		return nil, err
	}
	c := &Cluster{password: rand.Text(), settings: settings, setup: Setup{programs: programs}}
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

// AddWorker starts a worker and adds it to the cluster. The worker has no shards until the cluster is rebalanced.
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

// start starts a PostgreSQL with the extension. All nodes have the same password. A node that connects to another
// node reads the password from its environment.
func (c *Cluster) start(ctx context.Context) (*Server, error) {
	settings := append([]string{"shared_preload_libraries=citus", "citus.node_conninfo=sslmode=prefer", "wal_level=logical"}, c.settings...)
	s, err := c.setup.startPostgres(ctx, c.password, settings, func(s *Server) error {
		// PostgreSQL looks for certificates in HOME. A server that runs as another user cannot read the HOME of this
		// process.
		s.env = append(os.Environ(), "PGPASSWORD="+c.password, "HOME="+s.dir)
		return c.setup.initdb(ctx, s, c.password)
	})
	if err != nil {
		return nil, err
	}
	if err := on(ctx, s, `CREATE EXTENSION citus`); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// execute runs a statement on the coordinator. The parameters of the statement are the host and the
// port of a node.
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
