package app

import (
	"context"
	"time"

	"keypool/cmd/internal/config"
	"keypool/kgs"
	"keypool/kgs/keysource"
	"keypool/kgs/mempool"
	"keypool/kgs/refill"
	"keypool/shortener"

	"github.com/sony/gobreaker/v2"
)

// chain is where one server gets its keys from, as KEY_SOURCE selects. A part that the key source
// does not have is nil: random codes have no local batch, the ledger has no pool.
type chain struct {
	*core
	settings config.Serve
	fail     func(error) // ends the program
	counters *ledgerWatch
	// fromLedger reports that the codes are numbers of this server's ledger, whose counters then
	// measure how much of the space is used.
	fromLedger bool

	keys    *keys
	local   *kgs.Source
	breaker interface{ State() gobreaker.State }
	watch   *poolWatch
	serving *servingWatch
	started time.Time
}

// keySource is one value of KEY_SOURCE. A new one is added to keySources and nowhere else.
type keySource struct {
	name  string
	needs config.Need // "" for nothing
	open  func(*chain, context.Context) error
}

func keySources() []keySource {
	return []keySource{
		{"redis-pool", config.NeedsRedis, (*chain).openRedisPool},
		{"memory-pool", "", (*chain).openMemoryPool},
		{"ledger", "", (*chain).openLedgerSource},
		{"postgres-pool", config.NeedsPostgres, (*chain).openPostgresPool},
		{"redis-incr", config.NeedsRedis, (*chain).openRedisIncr},
		{"ticket", "", (*chain).openTickets},
		{"snowflake", "", (*chain).openSnowflake},
		{"hash", "", drawn(func(ch *chain) kgs.Generator { return keysource.Hash{Algorithm: ch.settings.HashAlgorithm} })},
		{"uuid", "", drawn(func(*chain) kgs.Generator { return keysource.UUID{} })},
		{"random", "", drawn(func(ch *chain) kgs.Generator { return ch.random() })},
		{"kgs", config.NeedsKGS, (*chain).openRemote},
	}
}

// drawn opens a key source that makes each key on demand and has nothing to open or close.
func drawn(generator func(*chain) kgs.Generator) func(*chain, context.Context) error {
	return func(ch *chain, _ context.Context) error {
		ch.openKeys(generator(ch))
		return nil
	}
}

// serverRules are the rules that a server's settings are checked against.
func serverRules() config.Rules {
	rules := config.Rules{Origin: func(text string) (string, bool) {
		origin, ok := shortener.ParseOrigin(text)
		return origin.String(), ok
	}}
	for _, s := range keySources() {
		rules.KeySources = append(rules.KeySources, config.KeySource{Name: s.name, Needs: s.needs})
	}
	return rules
}

// openChain opens the key source of s, with its worker and its dead man's switch.
func (c *core) openChain(ctx context.Context, s config.Serve, fail func(error)) (*chain, error) {
	ch := &chain{core: c, settings: s, fail: fail, counters: newLedgerWatch(c), started: time.Now()}
	ch.serving = &servingWatch{from: ch.servingFrom}
	c.life.background("ledger watch", fail, ch.counters.run)
	for _, source := range keySources() {
		if source.name == s.KeySource {
			if err := c.asHolder(ctx, fail, func() error { return source.open(ch, ctx) }); err != nil {
				return nil, err
			}
			c.life.background("serving watch", fail, ch.serving.run)
			return ch, nil
		}
	}
	panic("app: unknown KEY_SOURCE " + s.KeySource) // config.Server.Complete refuses it
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

// openMemoryPool: like redis-pool, with the pool in this process.
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

// workerIfWanted is build, or nil where KGS_WORKER=false leaves the refill to other processes.
func (ch *chain) workerIfWanted(build func() *refill.Worker) func() *refill.Worker {
	if !ch.settings.Worker.On {
		return nil
	}
	return build
}

// openLedgerSource: local batches directly from the ledger.
func (ch *chain) openLedgerSource(context.Context) error {
	ch.fromLedger = true
	ch.openLocal(ch.ledgerSupply())
	return nil
}

// openLocal opens a local batch of supply, and the fallback after it.
func (ch *chain) openLocal(supply kgs.Supply) {
	ch.local = ch.openSource(supply, false)
	ch.openKeys(ch.local)
}

// openKeys opens the fallback after first.
func (ch *chain) openKeys(first kgs.Generator) {
	ch.keys = &keys{first: first}
	switch ch.settings.Fallback {
	case "random":
		ch.keys.fallback = ch.random()
	case "ledger":
		ch.keys.fallback = ch.openSource(ch.ledgerSupply(), true)
	}
}

// openSource starts a local batch that returns its unused keys at the stop.
func (ch *chain) openSource(supply kgs.Supply, lazy bool) *kgs.Source {
	s := kgs.NewSource(kgs.SourceConfig{
		Supply: supply, Min: ch.settings.BatchMin, Max: ch.settings.BatchMax, Lazy: lazy,
		Logger: ch.log, Metrics: ch.metrics,
	})
	ch.life.onStop("local batch", ch.returnKeys(s.Close))
	return s
}

func (ch *chain) ledgerSupply() kgs.Supply {
	return mempool.NewLedgerSupply(ch.ledger, ch.space, ch.holder, ch.CodeLength)
}

// random draws codes of the length in use: the space of a shorter length may be used up.
func (ch *chain) random() keysource.Random { return keysource.Random{Length: ch.counters.length} }
