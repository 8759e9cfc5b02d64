package app

import (
	"context"
	"time"

	"keypool/kgs"
	"keypool/kgs/keysource"
	"keypool/kgs/mempool"
	"keypool/kgs/refill"

	"github.com/sony/gobreaker/v2"
)

// chain is the supply of keys of one server, as its KEY_SOURCE makes it. What a
// scheme does not have is nil: random codes have no local batch, a ledger no pool.
type chain struct {
	*core
	settings ServeSettings
	fail     func(error) // ends the program
	counters *ledgerWatch
	// fromLedger says that the codes are numbers of this server's ledger, whose counters then
	// tell how far the space is used up.
	fromLedger bool

	keys    *keys
	local   *kgs.Source
	breaker interface{ State() gobreaker.State }
	watch   *poolWatch
	serving *servingWatch
	started time.Time
}

// keySource is one way to get codes. The table is all that a new one is entered in.
type keySource struct {
	name  string
	needs need // "" for nothing
	open  func(*chain, context.Context) error
}

func keySources() []keySource {
	return []keySource{
		{"redis-pool", needsRedis, (*chain).openRedisPool},
		{"memory-pool", "", (*chain).openMemoryPool},
		{"ledger", "", (*chain).openLedgerSource},
		{"postgres-pool", needsPostgres, (*chain).openPostgresPool},
		{"redis-incr", needsRedis, (*chain).openRedisIncr},
		{"ticket", "", (*chain).openTickets},
		{"snowflake", "", (*chain).openSnowflake},
		{"hash", "", drawn(func(ch *chain) kgs.Generator { return keysource.Hash{Algorithm: ch.settings.HashAlgorithm} })},
		{"uuid", "", drawn(func(*chain) kgs.Generator { return keysource.UUID{} })},
		{"random", "", drawn(func(ch *chain) kgs.Generator { return ch.random() })},
		{"kgs", needsKGS, (*chain).openRemote},
	}
}

// drawn opens a scheme whose keys are made when they are wanted, out of nothing that
// would have to be opened or closed.
func drawn(scheme func(*chain) kgs.Generator) func(*chain, context.Context) error {
	return func(ch *chain, _ context.Context) error {
		ch.openKeys(scheme(ch))
		return nil
	}
}

func keySourceNames() []string {
	var names []string
	for _, s := range keySources() {
		names = append(names, s.name)
	}
	return names
}

// openChain opens the supply that s.KeySource names, with its worker and its watch.
func (c *core) openChain(ctx context.Context, s ServeSettings, fail func(error)) (*chain, error) {
	ch := &chain{core: c, settings: s, fail: fail, counters: newLedgerWatch(c), started: time.Now()}
	ch.serving = &servingWatch{from: ch.servingFrom}
	c.life.background("ledger watch", fail, ch.counters.run)
	for _, source := range keySources() {
		if source.name == s.KeySource {
			if err := c.inBooks(ctx, fail, func() error { return source.open(ch, ctx) }); err != nil {
				return nil, err
			}
			c.life.background("serving watch", fail, ch.serving.run)
			return ch, nil
		}
	}
	panic("KEY_SOURCE " + s.KeySource + " is not in the table that its parser goes by")
}

// openRedisPool: ledger, worker, Redis list, breaker, local batch.
func (ch *chain) openRedisPool(ctx context.Context) error {
	if err := ch.core.openRedisPool(ctx); err != nil {
		return err
	}
	breaker := kgs.NewBreaker(ch.pool, ch.log)
	ch.breaker, ch.fromLedger = breaker, true
	ch.watch = ch.watchPool(ch.fail, watched{look: observeRedis(kgs.Guard(breaker, ch.pool.Status)), build: ch.workerIfWanted(ch.redisWorker)})
	ch.openLocal(breaker)
	return nil
}

// openMemoryPool: as redis-pool, with the pool in this process.
func (ch *chain) openMemoryPool(context.Context) error {
	pool := mempool.New(ch.ledger, ch.space, ch.holder)
	ch.fromLedger = true
	look := func(context.Context) (kgs.PoolStatus, error) { return pool.Status(), nil }
	shipper := mempool.Filler{Ledger: ch.ledger, Pool: pool, Holder: ch.holder, Length: ch.CodeLength}
	build := func() *refill.Worker { return ch.worker(shipper) }
	ch.watch = ch.watchPool(ch.fail, watched{look: observe(look), build: ch.workerIfWanted(build)})
	ch.openLocal(pool)
	return nil
}

// workerIfWanted is build, unless KGS_WORKER=false leaves the refilling to others.
func (ch *chain) workerIfWanted(build func() *refill.Worker) func() *refill.Worker {
	if !ch.settings.Worker {
		return nil
	}
	return build
}

// openLedgerSource: local batches straight from the ledger, without a pool.
func (ch *chain) openLedgerSource(context.Context) error {
	ch.fromLedger = true
	ch.openLocal(ch.ledgerSupply())
	return nil
}

// openLocal puts the local batch before supply, and the fallback behind it.
func (ch *chain) openLocal(supply kgs.Supply) {
	ch.local = ch.openSource(supply, false)
	ch.openKeys(ch.local)
}

// openKeys puts the fallback behind first.
func (ch *chain) openKeys(first kgs.Generator) {
	ch.keys = &keys{first: first}
	switch ch.settings.Fallback {
	case "random":
		ch.keys.fallback = ch.random()
	case "ledger":
		ch.keys.fallback = ch.openSource(ch.ledgerSupply(), true)
	}
}

// openSource starts a local batch that gives back what it did not use when it ends.
func (ch *chain) openSource(supply kgs.Supply, lazy bool) *kgs.Source {
	s := kgs.NewSource(kgs.SourceConfig{
		Supply: supply, Min: ch.settings.BatchMin, Max: ch.settings.BatchMax, Lazy: lazy,
		Logger: ch.log, Metrics: ch.metrics,
	})
	ch.life.onStop("local batch", ch.handBack(s.Close))
	return s
}

func (ch *chain) ledgerSupply() kgs.Supply {
	return mempool.NewLedgerSupply(ch.ledger, ch.space, ch.holder, ch.CodeLength)
}

// random draws from the space that is in use: in one that is used up it would find nothing.
func (ch *chain) random() keysource.Random { return keysource.Random{Length: ch.counters.length} }
