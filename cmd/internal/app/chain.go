package app

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"keypool/cmd/internal/config"
	"keypool/kgs"
	"keypool/kgs/keyserver"
	"keypool/kgs/keysource"
	"keypool/kgs/ledger"
	"keypool/kgs/mempool"
	"keypool/kgs/refill"
	"keypool/web/admin"
)

// Chain supplies the keys of one server. KEY_SOURCE selects its key source. A field is nil if the key source
// has no such part. For example, the key source random has no local batch, and the key source ledger has no
// pool.
type Chain struct {
	*Core
	settings config.Serve
	fail     func(error) // ends the program
	counters *ledger.Watch
	// fromLedger is true if each code stands for a number of this server's ledger. In this case, the counters of
	// the ledger measure how much of the space is used.
	fromLedger bool

	keys    *kgs.Fallback
	local   *kgs.Source
	batch   atomic.Pointer[kgs.Source] // a copy of local for the dead man's switch, which may run before openLocal
	breaker interface{ State() gobreaker.State }
	remote  *keyserver.RemoteSupply // the key source kgs
	watch   *poolWatch
	serving *servingWatch
	started time.Time
}

// Keys returns the generator of the keys of the chain.
func (ch *Chain) Keys() kgs.Generator { return ch.keys }

// keySource is one value of KEY_SOURCE. A new key source needs an entry in keySources, and in no other list of the program.
type keySource struct {
	name  string
	needs config.Need // "" if the key source needs no setting
	open  func(*Chain, context.Context) error
	plain bool // whether the codes are consecutive numbers in base 62
}

func keySources() []keySource {
	return []keySource{
		{name: "redis-pool", needs: config.NeedsRedis, open: (*Chain).openRedisPool},
		{name: "memory-pool", open: (*Chain).openMemoryPool},
		{name: "ledger", open: (*Chain).openLedgerSource},
		{name: "postgres-pool", needs: config.NeedsPostgres, open: (*Chain).openPostgresPool},
		{name: "redis-incr", needs: config.NeedsRedis, open: (*Chain).openRedisIncr, plain: true},
		{name: "ticket", open: (*Chain).openTickets, plain: true},
		{name: "snowflake", open: (*Chain).openSnowflake},
		{name: "hash", open: drawn(func(ch *Chain) kgs.Generator { return keysource.Hash{Algorithm: ch.settings.HashAlgorithm} })},
		{name: "uuid", open: drawn(func(*Chain) kgs.Generator { return keysource.UUID{} })},
		{name: "random", open: drawn(func(ch *Chain) kgs.Generator { return ch.random() })},
		{name: "kgs", needs: config.NeedsKGS, open: (*Chain).openRemote},
	}
}

// drawn returns the value of keySource.open for a key source that makes each key on demand. Such a key source
// has nothing to open or close.
func drawn(generator func(*Chain) kgs.Generator) func(*Chain, context.Context) error {
	return func(ch *Chain, _ context.Context) error {
		ch.openKeys(generator(ch))
		return nil
	}
}

// KeySources returns the values of KEY_SOURCE.
func KeySources() []config.KeySource {
	var all []config.KeySource
	for _, s := range keySources() {
		all = append(all, config.KeySource{Name: s.name, Needs: s.needs})
	}
	return all
}

// PlainCodes reports whether the codes of a key source are always consecutive numbers in base 62, even if the ledger of the
// database permutes its numbers.
func PlainCodes(name string) bool {
	return slices.ContainsFunc(keySources(), func(s keySource) bool { return s.name == name && s.plain })
}

// OpenChain opens the key source that s selects, with its worker, its dead man's switch and its metrics. If a
// background task fails later, the task calls the function fail with the error.
func (c *Core) OpenChain(ctx context.Context, s config.Serve, fail func(error)) (*Chain, error) {
	ch := &Chain{Core: c, settings: s, fail: fail, counters: ledger.NewWatch(c.ledger.Counters, c.CodeLength, c.Log), started: time.Now()}
	ch.serving = newServingWatch(ch.servingFrom, ch.probe, ch.taken)
	c.life.Background("ledger watch", fail, ch.counters.Run)
	for _, source := range keySources() {
		if source.name == s.KeySource {
			if err := c.asHolder(ctx, fail, func() error { return source.open(ch, ctx) }); err != nil {
				return nil, err
			}
			c.life.Background("serving watch", fail, ch.serving.run)
			c.Registry.MustRegister(admin.NewGauges(ch.Status))
			return ch, nil
		}
	}
	panic("app: unknown KEY_SOURCE " + s.KeySource) // config.Server.Complete refuses an unknown key source
}

// openRedisPool opens the key source redis-pool: workers, a pool in Redis with its breakers, and a local batch.
func (ch *Chain) openRedisPool(ctx context.Context) error {
	if err := ch.Core.openRedisPool(ctx); err != nil {
		return err
	}
	ch.breaker, ch.fromLedger = ch.pool, true
	ch.watch = ch.watchPool(ch.fail, watched{look: ch.byCreations(observeRedis(ch.pool.Watch)), build: ch.workerIfWanted(ch.redisWorkers)})
	ch.openLocal(ch.pool)
	return nil
}

// openMemoryPool opens the key source memory-pool: a worker, a pool in this process and a local batch.
func (ch *Chain) openMemoryPool(context.Context) error {
	pool := mempool.New(ch.ledger, ch.Space, ch.holder)
	ch.fromLedger = true
	look := func(context.Context) (kgs.PoolStatus, error) { return pool.Status(), nil }
	filler := mempool.Filler{Ledger: ch.ledger, Pool: pool, Holder: ch.holder, Length: ch.CodeLength}
	build := func() refill.Runner { return ch.worker(filler) }
	ch.watch = ch.watchPool(ch.fail, watched{look: ch.byCreations(observe(look)), eachKey: true, build: ch.workerIfWanted(build)})
	ch.openLocal(pool)
	return nil
}

// byCreations returns a function that calls look, and subtracts from Taken the keys that are still in the
// local batch of this server. So a key that this server took counts in Taken only when a creation uses it. Without
// the subtraction, a server that has just filled its batch would seem to use up the pool.
func (ch *Chain) byCreations(look func(context.Context) (refill.Observation, error)) func(context.Context) (refill.Observation, error) {
	return func(ctx context.Context) (refill.Observation, error) {
		o, err := look(ctx)
		if batch := ch.batch.Load(); batch != nil {
			o.Taken -= batch.Local()
		}
		return o, err
	}
}

// workerIfWanted returns build, or nil if KGS_WORKER=false leaves the refill to other processes.
func (ch *Chain) workerIfWanted(build func() refill.Runner) func() refill.Runner {
	if !ch.settings.Worker.On {
		return nil
	}
	return build
}

// openLedgerSource opens the key source ledger: a local batch that takes keys directly from the ledger.
func (ch *Chain) openLedgerSource(context.Context) error {
	ch.fromLedger = true
	ch.openLocal(ch.ledgerSupply())
	return nil
}

// openLocal opens a local batch, which takes keys from supply, and the fallback for an empty batch.
func (ch *Chain) openLocal(supply kgs.Supply) {
	ch.local = ch.openSource(supply, false)
	ch.batch.Store(ch.local)
	ch.openKeys(ch.local)
}

// openKeys opens the fallback and makes the generator of the keys. The generator takes keys from primary. While primary
// has no key, the generator takes them from the fallback.
func (ch *Chain) openKeys(primary kgs.Generator) {
	var fallback kgs.Generator
	switch ch.settings.Fallback {
	case "random":
		random := ch.random()
		if _, hash := primary.(keysource.Hash); hash {
			random.First = keysource.HashAttempts
		}
		fallback = random
	case "ledger":
		fallback = ch.openSource(ch.ledgerSupply(), true)
	}
	ch.keys = kgs.NewFallback(primary, fallback)
}

// openSource opens a local batch, which returns its unused keys during the stop. If lazy is true, the batch
// takes no keys before a creation needs one.
func (ch *Chain) openSource(supply kgs.Supply, lazy bool) *kgs.Source {
	s := kgs.NewSource(kgs.SourceConfig{
		Supply: supply, Min: ch.settings.BatchMin, Max: ch.settings.BatchMax, Lazy: lazy,
		Logger: ch.Log, Metrics: ch.metrics,
	})
	ch.life.OnStop("local batch", ch.returnKeys(func(ctx context.Context) error {
		unused, refused := s.Local(), ch.refused()
		err := s.Close(ctx)
		if err == nil {
			ch.life.Returned(max(0, unused-(ch.refused()-refused)))
		}
		return err
	}))
	return s
}

// refused returns how many unused keys could not be returned. A pool refuses the keys of an earlier epoch, and a key
// service refuses the keys of an expired lease.
func (ch *Chain) refused() int64 {
	n := ch.metrics.Abandoned(kgs.ReasonEarlierEpoch)
	if ch.remote != nil {
		n += ch.remote.Kept()
	}
	return n
}

func (ch *Chain) ledgerSupply() kgs.Supply {
	return mempool.NewLedgerSupply(ch.ledger, ch.Space, ch.holder, ch.CodeLength)
}

// random returns a key source of random codes. In its first attempts, a creation gets codes of the length that the
// ledger uses at present. If the space of CODE_LENGTH is used up, the ledger uses a greater length.
func (ch *Chain) random() keysource.Random { return keysource.Random{Length: ch.counters.Length} }
