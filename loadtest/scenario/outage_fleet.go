package scenario

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"keypool/kgs/codespace"
	"keypool/loadtest"
	"keypool/loadtest/testbed"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

const (
	// fleetConns is what a server has for its links, besides three for its ledger: the
	// servers share one PostgreSQL.
	fleetConns = 2
	fleetMax   = "max_connections=200"
	// fleetPool is how many keys the pool holds: some tens of seconds' supply.
	fleetPool     = 50_000
	fleetLength   = 6
	fleetPatience = 30 * time.Second // until all servers hold what they ought to
)

// fleet is servers that share a database, a Redis and a worker, each with a load of its own.
type fleet struct {
	postgres *testbed.Server
	redis    *testbed.Server
	space    *codespace.Space // that of the codes: tells where a code came from
	servers  []*testbed.Program
	traffics []*Traffic
	recorder *loadtest.Recorder
}

// newFleet starts n servers with local batches of so many keys, and a worker that has
// filled the pool when it returns. What it starts belongs to bed.
func newFleet(ctx context.Context, bed *testbed.Bed, n, batch int) (f *fleet, err error) {
	f = &fleet{recorder: loadtest.NewRecorder()}
	secret := make([]byte, 16)
	rand.Read(secret) // never fails
	if f.space, err = codespace.New(secret); err != nil {
		return nil, err
	}
	if f.postgres, err = bed.Postgres(ctx, fleetMax); err != nil {
		return nil, err
	}
	if f.redis, err = bed.Redis(ctx); err != nil {
		return nil, err
	}
	settings := []string{
		fmt.Sprintf("DATABASE_URL=%s&pool_max_conns=%d", f.postgres.URL, fleetConns), "REDIS_URL=" + f.redis.URL,
		"KGS_SECRET=" + hex.EncodeToString(secret), fmt.Sprintf("CODE_LENGTH=%d", fleetLength), fmt.Sprintf("KGS_POOL_CAPACITY=%d", fleetPool),
	}
	if _, err := bed.Worker(ctx, settings...); err != nil {
		return nil, err
	}
	settings = append(settings, "KGS_WORKER=false", fmt.Sprintf("KGS_BATCH_MIN=%d", batch), fmt.Sprintf("KGS_BATCH_MAX=%d", batch))
	// One after the other: two that looked for a free port at once could find the same.
	for range n {
		server, err := bed.Server(ctx, settings...)
		if err != nil {
			return f, err
		}
		traffic, err := NewTraffic(server.Public, f.recorder)
		if err != nil {
			return f, err
		}
		f.servers, f.traffics = append(f.servers, server), append(f.traffics, traffic)
	}
	// A server holds a current batch and a spare one.
	err = f.await(ctx, "every server holds its keys", func(l fleetLook) bool { return l.Local >= int64(2*n*batch) && l.Batch == n })
	return f, err
}

func (f *fleet) close() {
	for _, t := range f.traffics {
		t.Close()
	}
}

// start puts rate creations per second on the servers, each server's turn in its turn.
func (f *fleet) start(ctx context.Context, rate float64) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	each := rate / float64(len(f.traffics))
	var loads errgroup.Group
	for i, t := range f.traffics {
		loads.Go(func() error {
			pause(ctx, time.Duration(float64(i)/rate*float64(time.Second)))
			return t.run(ctx, each, 0)
		})
	}
	return func() error {
		cancel()
		return loads.Wait()
	}
}

// pause is for those who look at ctx themselves afterwards.
func pause(ctx context.Context, d time.Duration) { _ = testbed.Pause(ctx, d) }

// books is what the ledger's tables say.
type books struct {
	reserved int64 // the numbers below were reserved
	epoch    int64
}

// books reads the tables themselves.
func (f *fleet) books(ctx context.Context) (b books, err error) {
	err = testbed.Query(ctx, f.postgres.URL, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT next, epoch FROM kgs_spaces, kgs_ledger WHERE length = $1`, fleetLength).Scan(&b.reserved, &b.epoch)
	})
	return b, err
}

// census is every link in the store.
func (f *fleet) census(ctx context.Context, each func(code, url string)) error {
	return testbed.Query(ctx, f.postgres.URL, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT code, url FROM links`)
		if err != nil {
			return err
		}
		var code, url string
		_, err = pgx.ForEachRow(rows, []any{&code, &url}, func() error { each(code, url); return nil })
		return err
	})
}

// judge reads every link back. By then each server has forgotten what it made, and the one
// that is asked made few of them: it is the store that answers.
func (f *fleet) judge(ctx context.Context) (loadtest.Verdict, error) {
	var entries []loadtest.Entry
	for _, t := range f.traffics {
		entries = append(entries, t.Entries()...)
	}
	checker := loadtest.Checker{Client: f.traffics[0].client, Census: f.census}
	findings, err := checker.Check(ctx, entries)
	return loadtest.Verdict{Figures: loadtest.Count(entries), Findings: findings}, err
}
