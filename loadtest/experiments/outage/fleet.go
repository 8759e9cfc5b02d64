package outage

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"keypool/kgs/codespace"
	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
)

const (
	// storeConns is the number of connections that a server has for its links. A server opens at most four
	// more: three for its ledger, and one for its tokens and the order of the links. All servers share one
	// PostgreSQL.
	storeConns = 2
	maxConns   = "max_connections=200"
	poolKeys   = 50_000 // capacity of the pool, which lasts for some tens of seconds
	codeLength = 6
)

// fleet is a group of servers that share a database, a Redis and a worker. Each server has a load.
type fleet struct {
	t        *experiment.T
	postgres *lab.Database
	redis    *lab.Database
	space    *codespace.Space // the permutation of the codes, which gives the number of a code
	servers  []*lab.Program
	loads    []*lab.Load
}

// newFleet starts a worker and the servers. It returns when every server holds its local keys.
func newFleet(t *experiment.T, p plan) *fleet {
	f := &fleet{t: t, postgres: lab.Postgres(t, maxConns), redis: lab.Redis(t)}
	secret := make([]byte, 16)
	rand.Read(secret) // Read never fails
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
	lab.Wait(t, lab.Patience, "every server holds two batches", func() bool {
		l, err := f.look(t.Context())
		return err == nil && l.local >= int64(2*p.servers*p.batch) && l.sound(p.servers)
	})
	return f
}

// start starts the loads, which create links at the given total rate. The loads start one after the other, so
// that the servers receive creations in turn.
func (f *fleet) start(rate float64) {
	for _, load := range f.loads {
		load.Start(rate / float64(len(f.loads)))
		lab.Pause(f.t, time.Duration(float64(time.Second)/rate))
	}
}

// stop ends the loads.
func (f *fleet) stop() {
	for _, load := range f.loads {
		load.Stop()
	}
}

// ledger holds values from the tables of the ledger.
type ledger struct {
	reserved int64 // all numbers below this number are reserved
	epoch    int64
}

// ledger reads the tables of the ledger.
func (f *fleet) ledger() ledger {
	v := lab.Value[[2]int64](f.t, f.postgres.URL, `SELECT ARRAY[next, epoch] FROM kgs_spaces, kgs_ledger WHERE length = $1`, codeLength)
	return ledger{reserved: v[0], epoch: v[1]}
}

// creations returns the creations of each server.
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

// reported returns the number of random codes according to the metrics of the servers.
func (f *fleet) reported() (sum float64) {
	for _, server := range f.servers {
		sum += server.Counter("kgs_keys_taken_total", "source", "random")
	}
	return sum
}

// look holds what the servers report at one time.
type look struct {
	open, closed int         // number of servers whose breaker is open or half-open, and of servers whose breaker is closed
	batch        int         // number of servers whose next key comes from a batch
	local        int64       // local keys of all servers
	each         []localKeys // local keys by server
}

// localKeys is the number of keys that a server held in memory.
type localKeys struct {
	at   time.Time // when the answer of the server had arrived
	keys int64
}

// sound reports whether all n servers take keys from Redis.
func (l look) sound(n int) bool { return l.closed == n && l.batch == n }

// look requests the status of all servers at the same time. It fails if a server does not answer or does not report
// its local keys.
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
		if s.LocalKeys == nil {
			return look{}, errors.New("a server does not report its local keys")
		}
		l.each[i].keys = *s.LocalKeys
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
