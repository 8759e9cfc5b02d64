package outage

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"keypool/kgs/codespace"
	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

const (
	// storeConns is what a server has for its links, in addition to three for its ledger. All
	// servers share one PostgreSQL.
	storeConns = 2
	maxConns   = "max_connections=200"
	poolKeys   = 50_000 // some tens of seconds
	codeLength = 6
)

// fleet is servers that share a database, a Redis and a worker, with a load on each.
type fleet struct {
	t        *experiment.T
	postgres *lab.Database
	redis    *lab.Database
	space    *codespace.Space // the permutation of the codes, which shows where a code came from
	servers  []*lab.Program
	loads    []*lab.Load
}

// newFleet starts a worker and the servers, and returns when all servers hold their local keys.
func newFleet(t *experiment.T, p plan) *fleet {
	f := &fleet{t: t, postgres: lab.Postgres(t, maxConns), redis: lab.Redis(t)}
	secret := make([]byte, 16)
	rand.Read(secret) // never fails
	space, err := codespace.New(secret)
	t.Must(err)
	f.space = space
	settings := []string{
		fmt.Sprintf("DATABASE_URL=%s&pool_max_conns=%d", f.postgres.URL, storeConns), "REDIS_URL=" + f.redis.URL,
		"KGS_SECRET=" + hex.EncodeToString(secret), fmt.Sprintf("CODE_LENGTH=%d", codeLength), fmt.Sprintf("KGS_POOL_CAPACITY=%d", poolKeys),
	}
	lab.Worker(t, settings...).Start()
	settings = append(settings, "KGS_WORKER=false", fmt.Sprintf("KGS_BATCH_MIN=%d", p.batch), fmt.Sprintf("KGS_BATCH_MAX=%d", p.batch))
	for range p.servers {
		server := lab.Server(t, settings...)
		server.Start()
		f.servers, f.loads = append(f.servers, server), append(f.loads, lab.Traffic(t, server))
	}
	lab.Wait(t, lab.Patience, "every server holds a batch and a spare one", func() bool {
		l, err := f.look(t.Context())
		return err == nil && l.local >= int64(2*p.servers*p.batch) && l.sound(p.servers)
	})
	return f
}

// start begins to create links at a rate on all servers, on one after the other.
func (f *fleet) start(rate float64) {
	for _, load := range f.loads {
		load.Start(rate / float64(len(f.loads)))
		lab.Pause(f.t, time.Duration(float64(time.Second)/rate))
	}
}

// stop ends the load.
func (f *fleet) stop() {
	for _, load := range f.loads {
		load.Stop()
	}
}

// ledger is what the tables of the ledger hold.
type ledger struct {
	reserved int64 // the numbers below were reserved
	epoch    int64
}

func (f *fleet) ledger() (l ledger) {
	lab.Query(f.t, f.postgres.URL, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT next, epoch FROM kgs_spaces, kgs_ledger WHERE length = $1`, codeLength).Scan(&l.reserved, &l.epoch)
	})
	return l
}

// creations are those of each server.
func (f *fleet) creations() [][]creation {
	all := make([][]creation, len(f.loads))
	for i, load := range f.loads {
		for _, e := range load.Entries() {
			c := creation{at: e.At, created: e.State == loadtest.Acknowledged}
			if length, n, err := f.space.Number(e.Code); err == nil && length == codeLength {
				c.number = n
			}
			all[i] = append(all[i], c)
		}
	}
	return all
}

// reported is how many random keys the servers took, by their metrics.
func (f *fleet) reported() (sum float64) {
	for _, server := range f.servers {
		sum += server.Counter("kgs_keys_taken_total", "source", "random")
	}
	return sum
}

// look is what the servers report at one moment.
type look struct {
	open, closed int // servers whose breaker is open or half-open, and closed
	batch        int // servers whose next key comes from a batch
	local        int64
	each         []localKeys // by server
}

// localKeys is how many keys a server held in memory.
type localKeys struct {
	at   time.Time // of the answer
	keys int64
}

// sound reports whether all n servers take keys from Redis.
func (l look) sound(n int) bool { return l.closed == n && l.batch == n }

// look asks all servers at once. It fails when one of them does not answer.
func (f *fleet) look(context.Context) (look, error) {
	statuses, l := make([]lab.Status, len(f.servers)), look{each: make([]localKeys, len(f.servers))}
	var asked errgroup.Group
	for i, server := range f.servers {
		asked.Go(func() (err error) {
			statuses[i], err = server.TryStatus()
			l.each[i].at = time.Now()
			return err
		})
	}
	if err := asked.Wait(); err != nil {
		return look{}, err
	}
	for i := range statuses {
		s := &statuses[i]
		l.each[i].keys = lab.Known(s.LocalKeys, 0)
		l.local += l.each[i].keys
		switch lab.Known(s.Breaker, "") {
		case "open", "half-open":
			l.open++
		case "closed":
			l.closed++
		}
		if lab.Known(s.ServingFrom, "") == "batch" {
			l.batch++
		}
	}
	return l, nil
}
