package app

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"keypool/cmd/internal/program"
	"keypool/kgs"
	"keypool/kgs/ledger"
	"keypool/kgs/refill"
	"keypool/web/admin"
	"keypool/web/httpserver"
)

// ServeAdmin serves the admin listener and takes the samples of its dashboard. It sets the fields
// of cfg that are the same for both programs.
func (c *Core) ServeAdmin(p *program.Program, cfg admin.Config) {
	cfg.Gatherer, cfg.Instance, cfg.Logger = c.Registry, c.instance, c.Log
	cfg.RestartBelow, cfg.PageBelow = c.RestartBelow.Keys(c.PoolCapacity), c.PageBelow.Keys(c.PoolCapacity)
	cfg.Counters.Refilled = c.metrics.Generated
	handler := admin.New(cfg)
	c.Registry.MustRegister(handler.ReadyGauge())
	p.ServeAdmin("admin listener", httpserver.NewAdmin(admin.OnlyHosts(handler, c.adminHosts()), c.Log))
	// The dashboard stops before the listener and ends every event stream. Therefore no stream
	// delays the stop.
	p.Background("dashboard", p.Fail, handler.Run)
}

// adminHosts returns the host names to which the admin listener answers.
func (c *Core) adminHosts() []string {
	names := slices.Clone(c.AdminHosts)
	if host, _, err := net.SplitHostPort(string(c.AdminAddr)); err == nil && host != "" {
		names = append(names, strings.ToLower(host))
	}
	return names
}

// Status returns the state of the chain for /status. It makes no network calls: it reports what the
// ledger watch and the dead man's switch read in the last few seconds. A value that could not be read
// is nil.
func (ch *Chain) Status() admin.Status {
	s := admin.Status{State: string(refill.StateOK), KeySource: ch.settings.KeySource, Since: ch.started}
	if ch.watch != nil {
		ch.watch.describe(&s)
		s.CapacityKeys = &ch.PoolCapacity
	}
	from, since := ch.serving.look()
	s.ServingFrom, s.ServingSince = &from, &since
	if ch.local != nil {
		local, rate := ch.local.Local(), ch.serving.takenRate()
		s.LocalKeys, s.TakenPerSecond = &local, &rate
	}
	if ch.fromLedger { // the ledger does not count codes from other sources
		ch.describeSpace(&s, ch.counters, ch.watch)
	}
	describeReserved(&s, ch.counters)
	if ch.breaker != nil {
		name := ch.breaker.State().String()
		s.Breaker = &name
	}
	return s
}

// servingFrom returns where the next key would come from: "batch", "fallback" or "none". If the key
// source has no local batch, servingFrom returns "batch" while the key source yields keys.
func (ch *Chain) servingFrom() string {
	switch {
	case ch.local != nil && (ch.local.Local() > 0 || ch.local.Failing() == nil):
		return "batch"
	case ch.local == nil && !ch.keys.Dry():
		return "batch"
	case ch.settings.Fallback != "none":
		return "fallback"
	}
	return "none"
}

// taken counts the keys that the local batch has handed out.
func (ch *Chain) taken() int64 {
	if ch.local == nil {
		return 0
	}
	return ch.local.Taken()
}

// probe checks once whether a key source without a local batch has keys again. A local batch needs no probe,
// because it takes keys in the background.
func (ch *Chain) probe(ctx context.Context) {
	if ch.local != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	ch.keys.Probe(ctx)
}

// Degraded reports whether the chain is degraded. The chain is degraded if the breaker is not closed. It is also degraded if the
// next key would come from the fallback, or if there is no next key.
func (ch *Chain) Degraded() bool {
	if ch.breaker != nil {
		if ch.breaker.State() != gobreaker.StateClosed {
			return true
		}
	}
	return ch.servingFrom() != "batch"
}

// describe adds the observations of the dead man's switch to s.
func (w *poolWatch) describe(s *admin.Status) {
	j := w.Judgement()
	s.State, s.Since = string(j.State), j.Since
	if j.Known {
		s.PoolKeys = &j.Pool.Keys
		if j.Pool.Epoch > 0 {
			s.Epoch = &j.Pool.Epoch
		}
		s.MayEvict = j.Pool.MayEvict
	}
	if runway, known := j.Runway(); known {
		s.RunwaySeconds = &runway
	}
	if w.worker != nil {
		rate := w.worker.Rate()
		s.RefilledPerSecond = &rate
	}
}

// describeReserved adds the count of numbers that are reserved in the ledger.
func describeReserved(s *admin.Status, counters *ledger.Watch) {
	if seen := counters.Fresh(); seen != nil {
		reserved := seen.Reserved()
		s.KeysReserved = &reserved
	}
}

// describeSpace adds three values of the space: the code length, the ratio of used numbers, and the runway. It also
// adds the expected number of attempts for a random code, which is 1/(1-f) for the fraction f of the codes that are
// taken. A key in a pool is not taken: a random code conflicts only with the code of a link. Aliases and random codes
// do not count, because the ledger does not record them.
//
// With a pool in Redis, the runway follows from the rate at which servers take keys from the pool. It is unknown while
// the pool cannot be read. The pool does not count leases, so the runway does not include them. Without a pool in
// Redis, the runway follows from the rate at which keys are settled, leased or abandoned. This rate is an average
// over at most a day. It covers all processes, whereas the rate of a pool in memory would cover only one process. In both
// cases, the rate of reservations would be wrong, because the numbers in a pool or in a new batch are not used yet.
func (c *Core) describeSpace(s *admin.Status, counters *ledger.Watch, pool *poolWatch) {
	s.CountsSpace = true
	seen := counters.Fresh()
	if seen == nil {
		return
	}
	space := seen.Current(c.CodeLength)
	s.SpaceLength = &space.Length
	if space.Next > 0 { // 0 before the first reservation in a new ledger
		used := space.UsedRatio()
		s.SpaceUsedRatio = &used
	}
	if taken, known := c.takenOf(space, seen, pool); known && taken < space.Size {
		attempts := float64(space.Size) / float64(space.Size-taken)
		s.FallbackAttemptsExpected = &attempts
	}
	rate, known := seen.Rate, true
	if c.pool != nil {
		j := pool.Judgement()
		rate, known = j.Rate, j.Known
	}
	if known && rate >= refill.LeastRate {
		seconds := float64(space.Size-space.Next) / rate
		s.SpaceRunwaySeconds = &seconds
	}
}

// Pooled reports whether the key source takes keys from a pool that this chain watches.
func (ch *Chain) Pooled() bool { return ch.watch != nil }

// takenOf returns how many numbers of space were taken by creations and by clients of the key service. The ledger
// also counts the keys in a Redis pool as taken, so takenOf subtracts them. A program without this pool cannot subtract
// them. The count is unknown if the number of keys in the pool is unknown.
func (c *Core) takenOf(space ledger.SpaceCounter, seen *ledger.Observed, pool *poolWatch) (taken int64, known bool) {
	taken = seen.TakenOf(space)
	if c.pool == nil {
		return taken, true
	}
	j := pool.Judgement()
	// The difference is negative if keys have reached the pool since the ledger was read.
	return max(0, taken-j.Pool.Keys), j.Known && !j.Pool.Partial
}

const (
	// servingInterval is the precision of ServingSince, and the time between two probes of a key source that has no keys.
	servingInterval = time.Second
	// takenWindow is the time over which the rate of taken keys is measured.
	takenWindow = 5 * time.Second
	// sourceTimeout is the time limit of a probe of a key source.
	sourceTimeout = time.Second
)

// servingWatch records where the next key would come from (the batch, the fallback or nowhere), and since when. It also
// records the rate at which creations take keys from the local batch.
type servingWatch struct {
	from  func() string         // "batch", "fallback" or "none"
	probe func(context.Context) // checks whether the key source has keys again
	taken func() int64          // keys that creations took from the local batch

	mu    sync.Mutex
	last  string
	since time.Time
	rate  kgs.Window
}

func newServingWatch(from func() string, probe func(context.Context), taken func() int64) *servingWatch {
	// The samples are taken servingInterval apart, sometimes a few milliseconds more or less. The window must begin with the
	// sample that is about takenWindow old, and not with the sample before it. So the window is half an interval shorter than
	// takenWindow.
	return &servingWatch{from: from, probe: probe, taken: taken, rate: kgs.NewWindow(takenWindow - servingInterval/2)}
}

func (w *servingWatch) run(ctx context.Context) error {
	tick := time.NewTicker(servingInterval)
	defer tick.Stop()
	for {
		w.probe(ctx)
		w.look()
		w.sample()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look returns where the next key would come from, and when this value last changed.
func (w *servingWatch) look() (string, time.Time) {
	from := w.from()
	w.mu.Lock()
	defer w.mu.Unlock()
	if from != w.last {
		w.last, w.since = from, time.Now()
	}
	return w.last, w.since
}

func (w *servingWatch) sample() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rate.Sample(w.taken(), time.Now())
}

// takenRate returns the keys per second that creations took from the local batch in the last five seconds.
func (w *servingWatch) takenRate() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rate.Rate()
}
