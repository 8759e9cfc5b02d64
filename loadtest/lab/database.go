package lab

import (
	"context"
	"os/exec"
	"strings"
	"time"

	"keypool/internal/testenv/machine"
)

// Database is a PostgreSQL, PgBouncer, Redis or Redis Sentinel server of one run. The lab starts it from the programs
// that are installed on this machine, and stops it when the run ends.
type Database struct {
	Addr string // host:port; Restart keeps it
	URL  string // the URL for clients, with credentials

	r      T
	server *machine.Server
}

// Installed reports whether all of the named programs, such as "postgres", "redis-server", "wrk" or "nginx", are
// installed.
func Installed(programs ...string) bool {
	for _, p := range programs {
		if _, err := machine.LookPath(p); err != nil {
			return false
		}
	}
	return true
}

// Versions returns the versions of the PostgreSQL and the Redis that [Postgres] and [Redis] start, as the
// programs print them. It omits a program that is not installed.
func Versions(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var versions []string
	for _, name := range []string{"postgres", "redis-server"} {
		path, err := machine.LookPath(name)
		if err != nil {
			continue
		}
		if out, err := exec.CommandContext(ctx, path, "--version").Output(); err == nil {
			versions = append(versions, strings.TrimSpace(string(out)))
		}
	}
	return strings.Join(versions, "; ")
}

// Postgres starts a PostgreSQL with the settings ("name=value"). By default its commits are durable.
func Postgres(r T, settings ...string) *Database {
	s, err := machine.StartPostgres(r.Context(), settings...)
	return database(r, s, err)
}

// Standby starts a PostgreSQL server that replicates primary.
func Standby(r T, primary *Database, settings ...string) *Database {
	s, err := machine.StartStandby(r.Context(), primary.server, settings...)
	return database(r, s, err)
}

// PgBouncer starts a PgBouncer in transaction mode in front of postgres.
func PgBouncer(r T, postgres *Database) *Database {
	s, err := machine.StartPgBouncer(r.Context(), postgres.server)
	return database(r, s, err)
}

// Redis starts a Redis with the arguments args ("--name", "value"). By default it writes nothing to disk.
func Redis(r T, args ...string) *Database {
	return startRedis(r, machine.Setup{}, args...)
}

// RedisCluster starts a Redis Cluster of the given number of masters, each with one replica. It returns the
// masters, then their replicas in the same order, and the URL of the Cluster. If a master fails, the Cluster
// still serves the slots of the other masters.
func RedisCluster(r T, masters int) (nodes []*Database, url string) {
	servers, err := machine.StartRedisCluster(r.Context(), masters, "--save", "", "--cluster-require-full-coverage", "no")
	must(r, err, "start a Redis Cluster")
	for _, server := range servers {
		nodes = append(nodes, database(r, server, nil))
	}
	return nodes, machine.ClusterURL(servers)
}

// Sentinel starts a Redis Sentinel that monitors master under the name main.
func Sentinel(r T, master *Database) *Database {
	s, err := machine.StartSentinel(r.Context(), master.Addr)
	return database(r, s, err)
}

// DurableRedis starts a Redis that loses no acknowledged write when it is killed. A new replica begins to
// synchronize immediately, and not after five seconds, which is the default of Redis.
func DurableRedis(r T) *Database {
	return Redis(r, "--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0")
}

// ClockedRedis is like Redis, but the server has its own clock, which [Database.JumpClock] sets. The start needs
// gcc.
func ClockedRedis(r T) *Database { return startRedis(r, machine.Setup{Clock: true}) }

func startRedis(r T, setup machine.Setup, args ...string) *Database {
	s, err := setup.StartRedis(r.Context(), append([]string{"--save", "", "--appendonly", "no"}, args...)...)
	return database(r, s, err)
}

// ClockedPostgres is like Postgres, but the server has its own clock, which [Database.JumpClock] sets. The start
// needs gcc.
func ClockedPostgres(r T, settings ...string) *Database {
	s, err := machine.Setup{Clock: true}.StartPostgres(r.Context(), settings...)
	return database(r, s, err)
}

// database makes a Database from the result of a start. It ends the run if the start failed.
func database(r T, s *machine.Server, err error) *Database {
	must(r, err, "start a server")
	r.Cleanup(func() {
		if err := s.Close(); err != nil {
			r.Errorf("close a server: %v", err)
		}
	})
	return &Database{Addr: s.Addr, URL: s.URL, r: r, server: s}
}

// Kill ends the server and its children with SIGKILL.
func (d *Database) Kill() { must(d.r, d.server.Kill(), "kill a database") }

// Stop shuts the server down. The server keeps the data that its settings make durable, so a Redis that writes nothing
// to disk loses its data.
func (d *Database) Stop() { must(d.r, d.server.Stop(), "stop a database") }

// Restart stops the server if it is running, and starts it again with the data that it has on disk.
func (d *Database) Restart() { must(d.r, d.server.Restart(d.r.Context()), "restart a database") }

// Freeze stops the server with SIGSTOP. Connections stay open, and requests get no answer.
func (d *Database) Freeze() { must(d.r, d.server.Pause(), "freeze a database") }

// Thaw lets a frozen server continue.
func (d *Database) Thaw() { must(d.r, d.server.Resume(), "thaw a database") }

// Promote turns a standby into a primary. It returns when the server accepts writes.
func (d *Database) Promote() {
	must(d.r, machine.Promote(d.r.Context(), d.server), "promote a standby")
}

// JumpClock sets the clock of the server to the real time plus offset. The server may be running.
// ClockedRedis or ClockedPostgres must have started the server.
func (d *Database) JumpClock(offset time.Duration) {
	must(d.r, d.server.JumpClock(offset), "set the clock of a database")
}

// Processor returns the processor time that the server and its children have used since its last start. The server must
// be running.
func (d *Database) Processor() time.Duration {
	used, err := d.server.Processor()
	must(d.r, err, "read the processor time of a database")
	return used
}

// Dir returns the directory that contains all files of the server.
func (d *Database) Dir() string { return d.server.Dir() }

// Other starts an HTTP server for which this package has no function of its own, such as nginx. It returns the URL of
// the server when ping succeeds. The function command receives a free address and returns the program with its arguments. The
// environment of the server is PATH, TMPDIR and env.
func Other(r T, env []string, command func(addr string) (path string, args []string), ping func(ctx context.Context, url string) error) (url string) {
	addr, err := FreeAddr()
	must(r, err, "choose an address")
	path, args := command(addr)
	url = "http://" + addr
	s, err := machine.Program{Path: path, Args: args, Env: env, Dir: r.TempDir(), URL: url, Ping: ping}.Start(r.Context())
	database(r, s, err)
	return url
}
