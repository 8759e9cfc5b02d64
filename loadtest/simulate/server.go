package simulate

import (
	"context"
	"time"

	"keypool/kgs"
	"keypool/kgs/refill"
)

// server is the part of a server that supplies keys. The breaker, the source, the fallback and the dead man's switch are
// code of the product. The field supply and the switch call the model of Redis.
type server struct {
	supply  *supply
	breaker *kgs.Breaker
	source  *kgs.Source
	keys    *kgs.Fallback
	stop    context.CancelFunc // ends the dead man's switch
	dry     time.Time          // time of the first creation by the fallback since Redis stopped
}

// newServer starts a server. Only the first server has a dead man's switch, because all switches observe the same
// pool.
func (r *run) newServer(i int) *server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{supply: &supply{redis: r.redis, caller: i, epochs: make(map[int64]int64)}, stop: cancel}
	s.breaker = kgs.NewBreaker(s.supply, "pool", r.log)
	s.source = kgs.NewSource(kgs.SourceConfig{Supply: s.breaker, Min: r.cfg.BatchMin, Max: r.cfg.BatchMax, Logger: r.log, Metrics: r.metrics})
	s.keys = kgs.NewFallback(s.source, random{})
	if i == 0 {
		guarded := kgs.Guard(s.breaker, r.redis.status)
		deadman := r.deadman(func(ctx context.Context) (kgs.PoolStatus, error) {
			status, err := guarded(ctx)
			status.Taken -= s.source.Local()
			return status, err
		}, refill.DeadMansSwitchConfig{Changed: r.signal})
		r.parts.Go(func() { _ = deadman.Run(ctx) }) // Run always returns nil
	}
	return s
}

// signal records a change of the state of the dead man's switch.
func (r *run) signal(j refill.Judgement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out.Signals = append(r.out.Signals, Signal{At: j.Since.Sub(r.started).Seconds(), State: string(j.State), Keys: j.Pool.Keys})
}

// replace starts a new process for a server and stops the old one.
func (r *run) replace(i int) {
	old := r.servers[i]
	r.servers[i] = r.newServer(i)
	r.stop(old)
}

// stop lets a server return its keys and end.
func (r *run) stop(s *server) {
	s.stop()
	r.parts.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		held := s.source.Local()
		if err := s.source.Close(ctx); err != nil { // a sweep of the ledger then abandons the keys
			r.mu.Lock()
			r.out.Tally.Abandoned += held
			r.mu.Unlock()
		}
	})
}

// random is the model of the fallback. Its keys have no code, because the simulation only counts them.
type random struct{}

// Next implements [kgs.Generator].
func (random) Next(context.Context, string, int) (kgs.Key, error) {
	return kgs.Key{Source: kgs.SourceRandom}, nil
}

// ended returns a context that has ended. With this context, a Source returns a key from its memory or an error, and
// never waits.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// create makes one creation on a server. A creation that must wait for its key waits in a separate goroutine, so it
// does not delay other creations.
func (r *run) create(i int) {
	s := r.servers[i]
	if key, err := s.keys.Next(r.ended, "", 0); err == nil {
		r.settle(s, key, 0)
		return
	}
	r.parts.Go(func() {
		began := time.Now()
		key, err := s.keys.Next(context.Background(), "", 0)
		if err != nil {
			r.mu.Lock()
			r.out.Tally.Creations++
			r.out.Tally.Failed++
			r.mu.Unlock()
			return
		}
		r.settle(s, key, time.Since(began))
	})
}

// settle counts a creation and reports its key as used. The model spends no time on the commit of the link, because
// the commit has no effect on the supply of keys.
func (r *run) settle(s *server, key kgs.Key, waited time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.out.Tally
	t.Creations++
	if waited > 0 {
		t.Waited++
		t.Longest = max(t.Longest, waited.Round(10*time.Millisecond).Seconds()) // rounded, so that the order of simultaneous events does not change the result
	}
	if key.Batch == nil {
		t.Fallback++
		r.note(s)
		return
	}
	t.Used++
	r.used.add(key.Code)
	key.Batch.Used()
}

// note records the time of a creation by the fallback. The caller holds mu.
func (r *run) note(s *server) {
	now := time.Now()
	if s.dry.IsZero() {
		s.dry = now
	}
	if since := now.Sub(r.back); !r.back.IsZero() && since < time.Minute {
		r.out.Recovered = since
	}
}
