package schemes

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"

	"keypool/internal/testenv/machine"
	"keypool/loadtest/testbed"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

const (
	// poolKeys is how many keys a pool holds: some seconds' supply at full speed.
	poolKeys = 200_000
	// redisDatabases is how many databases Redis has: more than are ever wanted.
	redisDatabases = 512
)

// stage is the servers that all schemes share.
type stage struct {
	bed      *testbed.Bed
	postgres *testbed.Server
	redis    *testbed.Server
	meter    *redis.Client // that asks Redis how much it was asked

	mu        sync.Mutex // held while a scheme is started
	asked     int        // how often meter has asked
	databases int        // made so far, in PostgreSQL
	numbers   int        // given so far, of databases in Redis
}

// newStage starts PostgreSQL, which commits durably, and counts what is asked of it; and a
// Redis that keeps nothing.
func newStage(ctx context.Context, programs string) (_ *stage, err error) {
	g := &stage{}
	if g.bed, err = testbed.New(programs); err != nil {
		return nil, err
	}
	g.postgres, err = g.bed.Postgres(ctx, "max_connections=500", "shared_preload_libraries=pg_stat_statements")
	if err == nil {
		g.redis, err = g.bed.Redis(ctx, "--databases", fmt.Sprint(redisDatabases))
	}
	if err == nil {
		g.meter = redis.NewClient(&redis.Options{Addr: g.redis.Addr, PoolSize: 1})
		err = testbed.Query(ctx, g.postgres.URL, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `CREATE EXTENSION pg_stat_statements`)
			return err
		})
	}
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

func (g *stage) close() error {
	if g.meter == nil {
		return g.bed.Close()
	}
	return errors.Join(g.meter.Close(), g.bed.Close())
}

// database makes a database on the server at address: a copy of template, or an empty one.
func (g *stage) database(ctx context.Context, address, template string) (name, url string, err error) {
	g.databases++
	name = fmt.Sprintf("scheme_%d", g.databases)
	url, err = testbed.CreateDatabase(ctx, address, name, template)
	return name, url, err
}

// redisURL is that of a database of its own.
func (g *stage) redisURL() string {
	g.numbers++
	return fmt.Sprintf("%s/%d", g.redis.URL, g.numbers)
}

// setup is how a scheme is to be run.
type setup struct {
	settings []string  // further ones, which count before all others
	postgres string    // URL of the server with the links, "" for the one of the stage
	template string    // the database that all its databases are copies of, "" for empty ones
	tickets  [2]string // URLs of the servers with the ticket databases; "": where the links are
	used     int64     // so many codes of length 3 have been given out
}

// running is a scheme with all that it needs.
type running struct {
	scheme
	env     []string         // all settings of the server
	links   string           // URL of the database of the links
	keys    string           // of the one of the key service
	tickets [2]string        // of the ticket databases: odd, even
	redis   string           // of its database in Redis
	supply  []string         // names of the databases that the server itself takes keys from
	service *testbed.Program // of keys
	server  *testbed.Program
}

// start starts what the scheme needs and a server; nothing that it makes is shared but the
// processes of the stage. After an error nothing of it runs on. It may be called concurrently, and does one after the other: two
// that looked for a free port at once could find the same.
func (g *stage) start(ctx context.Context, s scheme, how setup) (*running, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := &running{scheme: s}
	how.postgres = cmp.Or(how.postgres, g.postgres.URL)
	name, url, err := g.database(ctx, how.postgres, how.template)
	if err != nil {
		return nil, err
	}
	r.links, r.supply = url, []string{name}
	settings := slices.Concat([]string{"DATABASE_URL=" + url, "FALLBACK=none", fmt.Sprintf("KGS_POOL_CAPACITY=%d", poolKeys)}, s.settings, how.settings)
	if s.redis {
		r.redis = g.redisURL()
		settings = append(settings, "REDIS_URL="+r.redis)
	}
	if s.tickets {
		if err := g.startTickets(ctx, r, how); err != nil {
			return nil, err
		}
		settings = append(settings, "TICKET_DATABASE_URLS="+r.tickets[0]+","+r.tickets[1])
	}
	if s.service {
		if _, r.keys, err = g.database(ctx, how.postgres, how.template); err != nil {
			return nil, err
		}
	}
	if how.used > 0 && s.used != nil {
		if err := s.used(ctx, r, how.used); err != nil {
			return nil, fmt.Errorf("fill the space: %w", err)
		}
	}
	if s.service {
		address, err := g.startService(ctx, r, settings)
		if err != nil {
			return nil, err
		}
		settings = append(settings, "KGS_URL="+address)
	}
	r.env = settings
	if r.server, err = g.bed.ServerWhen(ctx, filled, settings...); err != nil {
		return nil, errors.Join(err, r.kill())
	}
	return r, nil
}

// filled fails while a server is not ready or, by its own word, its pool is not full.
func filled(ctx context.Context, p *testbed.Program) error {
	if err := testbed.Ready(ctx, p.Admin); err != nil {
		return err
	}
	status, err := testbed.AskStatus(ctx, p.Admin)
	if err == nil && status.State != "ok" {
		err = fmt.Errorf("its state is %s", status.State)
	}
	return err
}

// startTickets makes the ticket databases.
func (g *stage) startTickets(ctx context.Context, r *running, how setup) (err error) {
	for i := range r.tickets {
		var name string
		if name, r.tickets[i], err = g.database(ctx, cmp.Or(how.tickets[i], how.postgres), how.template); err != nil {
			return err
		}
		r.supply = append(r.supply, name)
	}
	return nil
}

// startService starts a key service on a database of its own and returns where it serves.
func (g *stage) startService(ctx context.Context, r *running, settings []string) (address string, err error) {
	listen, err := machine.FreeAddr(ctx)
	if err != nil {
		return "", err
	}
	token := rand.Text()
	settings = append(slices.Clone(settings), "DATABASE_URL="+r.keys, "KGS_TOKENS=shortener="+token, "KGS_LISTEN_ADDR="+listen)
	r.service, err = g.bed.Worker(ctx, settings...)
	return "http://shortener:" + token + "@" + listen, err
}

// stop ends the server and the service in order, if they run.
func (r *running) stop() error {
	var errs []error
	for _, p := range []*testbed.Program{r.server, r.service} {
		if p != nil {
			errs = append(errs, p.Stop())
		}
	}
	return errors.Join(errs...)
}

// kill ends them with SIGKILL.
func (r *running) kill() error {
	var errs []error
	for _, p := range []*testbed.Program{r.server, r.service} {
		if p != nil {
			errs = append(errs, p.Kill())
		}
	}
	return errors.Join(errs...)
}
