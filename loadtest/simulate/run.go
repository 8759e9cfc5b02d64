package simulate

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/kgs"
)

// Config describes a run. All times count from the start of the run.
type Config struct {
	Servers, Workers   int
	Capacity           int64 // keys in a full pool
	Filled             int64 // keys in the pool at the start
	BatchMin, BatchMax int
	Duration           time.Duration
	Step               time.Duration // all creations of a step happen at the same time, in its middle
	Sample             time.Duration // interval of Outcome.Samples
	Load               Load
	Events             []Event // sorted by time
}

// Kind is what happens in an event.
type Kind int

// The kinds of events.
const (
	RedisStops   Kind = iota // Redis is killed and loses the pool
	RedisStarts              // Redis can be reached again, without data
	WorkersStop              // all workers end
	WorkersStart             // all workers start
	ServerStarts             // a server is replaced by a new process
)

// Event is something that happens at a given time.
type Event struct {
	At     time.Duration
	Kind   Kind
	Server int // index of the server that ServerStarts replaces
}

// Sample is the state at one time.
type Sample struct {
	At        float64 `json:"at_seconds"`
	Pool      int64   `json:"pool_keys"`
	Local     int64   `json:"local_keys"`         // keys in the memory of all servers
	Creations int64   `json:"creations"`          // creations since the start
	Fallback  int64   `json:"fallback_creations"` // creations by the fallback since the start
	Open      int     `json:"open_breakers"`      // servers whose breaker is not closed
}

// Signal is a change of the state of the dead man's switch of the first server.
type Signal struct {
	At    float64 `json:"at_seconds"`
	State string  `json:"state"`
	Keys  int64   `json:"pool_keys"`
}

// Outcome is what a run observed.
type Outcome struct {
	Samples []Sample // one for each interval, and one for each event except ServerStarts
	Signals []Signal
	Tally   Tally
	EmptyAt time.Duration // when a server first took the last key of the pool; 0 if no server did
	// Lasted is, for each server, the time from RedisStops to its first creation by the fallback. If there was
	// none, it is the time from RedisStops to RedisStarts.
	Lasted []time.Duration
	// Recovered is the time from RedisStarts to the last creation by the fallback within a minute after
	// RedisStarts.
	Recovered time.Duration
}

// Tally counts the creations and the keys of a run.
type Tally struct {
	Creations int64   `json:"creations"`
	Used      int64   `json:"keys_used"`             // creations with a key of the pool
	Fallback  int64   `json:"fallback_creations"`    // creations with a code of the fallback
	Failed    int64   `json:"failed_creations"`      // creations without a code
	Waited    int64   `json:"creations_that_waited"` // creations that had to wait for a key
	Longest   float64 `json:"longest_wait_seconds"`
	Pushed    int64   `json:"keys_pushed"` // includes the keys in the pool at the start
	Taken     int64   `json:"keys_taken"`
	Returned  int64   `json:"keys_returned"`
	Lost      int64   `json:"keys_lost"`       // keys in a pool that Redis lost
	Abandoned int64   `json:"keys_abandoned"`  // unused keys that a server could not return
	Pool      int64   `json:"keys_in_pool"`    // keys in the pool at the end
	Held      int64   `json:"keys_on_servers"` // keys in the memory of all servers at the end
	Twice     int64   `json:"keys_used_twice"`
}

// Closes reports whether every key and every creation is accounted for.
func (t Tally) Closes() bool {
	return t.Creations == t.Used+t.Fallback+t.Failed && t.Twice == 0 &&
		t.Pool == t.Pushed-t.Lost-t.Taken+t.Returned && t.Held == t.Taken-t.Returned-t.Used-t.Abandoned
}

// run is a simulation in progress.
type run struct {
	cfg     Config
	log     *slog.Logger
	metrics *kgs.Metrics
	started time.Time
	redis   *redis
	ledger  *counter
	servers []*server
	parts   sync.WaitGroup // all goroutines of the run
	workers context.CancelFunc

	mu   sync.Mutex // guards out, used, back and the field dry of each server
	out  Outcome
	used *usedNumbers

	ended context.Context // a context that has ended; see the function ended

	stopped, back time.Time // when Redis stopped, and when it started again
}

// Run simulates the deployment of cfg. If ctx ends, Run returns early, with an incomplete outcome and the error of ctx.
func Run(ctx context.Context, cfg Config) (*Outcome, error) {
	var out *Outcome
	used := newUsedNumbers()
	virtually(func() {
		r := &run{
			cfg: cfg, log: slog.New(slog.DiscardHandler), metrics: kgs.NewMetrics(prometheus.NewRegistry()), started: time.Now(), ended: ended(),
			redis: &redis{}, ledger: &counter{next: cfg.Filled}, used: used,
		}
		r.redis.begin()
		r.redis.add(keyRange{0, cfg.Filled})
		r.redis.pushed, r.redis.inEpoch.Pushed = cfg.Filled, cfg.Filled
		r.play(ctx)
		out = r.end()
	})
	out.Tally.Twice = used.close()
	return out, ctx.Err()
}

// play runs the load and the events.
func (r *run) play(ctx context.Context) {
	r.startWorkers()
	for i := range r.cfg.Servers {
		r.servers = append(r.servers, r.newServer(i))
	}
	c := &conductor{run: r, now: r.cfg.Step / 2, events: r.cfg.Events}
	pause(c.now)
	for at, i := range r.cfg.Load {
		if !c.advance(ctx, at) {
			return
		}
		r.create(i)
	}
	c.advance(ctx, r.cfg.Duration)
}

// conductor moves the virtual clock and makes each event happen at its time.
type conductor struct {
	run     *run
	now     time.Duration
	events  []Event
	sampled time.Duration // time of the next sample
}

// advance moves the clock forward to the given time (end). Creations happen in the middle of a step. Periodic tasks
// of the product never start in the middle of a step. The order of creations and tasks is therefore
// the same in each run. advance returns false if ctx has ended.
func (c *conductor) advance(ctx context.Context, end time.Duration) bool {
	for ; c.now < end; c.now += c.run.cfg.Step {
		pause(c.run.cfg.Step)
		for ; len(c.events) > 0 && c.events[0].At <= c.now; c.events = c.events[1:] {
			if c.events[0].Kind != ServerStarts {
				c.run.sample(c.now)
			}
			c.run.happen(c.events[0])
		}
		if c.now >= c.sampled {
			if ctx.Err() != nil {
				return false
			}
			c.sampled += c.run.cfg.Sample
			c.run.sample(c.now)
		}
	}
	return true
}

func (r *run) happen(e Event) {
	switch e.Kind {
	case RedisStops:
		r.redis.kill()
		r.stopped = time.Now()
		r.mu.Lock()
		for _, s := range r.servers {
			s.dry = time.Time{}
		}
		r.mu.Unlock()
	case RedisStarts:
		r.redis.restart()
		r.mu.Lock()
		r.back = time.Now()
		for _, s := range r.servers {
			lasted := r.back.Sub(r.stopped)
			if !s.dry.IsZero() {
				lasted = s.dry.Sub(r.stopped)
			}
			r.out.Lasted = append(r.out.Lasted, lasted)
		}
		r.mu.Unlock()
	case WorkersStop:
		r.workers()
	case WorkersStart:
		r.startWorkers()
	case ServerStarts:
		r.replace(e.Server)
	}
}

func (r *run) startWorkers() {
	ctx, cancel := context.WithCancel(context.Background())
	r.workers = cancel
	for i := range r.cfg.Workers {
		r.parts.Go(func() { r.program(ctx, -1-i) })
	}
}

func (r *run) sample(at time.Duration) {
	s := Sample{At: at.Seconds(), Pool: r.redis.level()}
	for _, server := range r.servers {
		s.Local += server.source.Local()
		if server.breaker.State() != 0 {
			s.Open++
		}
	}
	r.mu.Lock()
	s.Creations, s.Fallback = r.out.Tally.Creations, r.out.Tally.Fallback
	r.out.Samples = append(r.out.Samples, s)
	r.mu.Unlock()
}

// end stops all goroutines of the run and returns what the run observed. It counts the local keys of the servers
// before the servers return them.
func (r *run) end() *Outcome {
	r.workers()
	pause(time.Second) // meanwhile the calls in progress return
	t := &r.out.Tally
	for _, s := range r.servers {
		t.Held += s.source.Local()
	}
	t.Pushed, t.Taken, t.Returned, t.Pool = r.redis.pushed, r.redis.taken, r.redis.returned, r.redis.size
	t.Lost, t.Abandoned = r.redis.lost, t.Abandoned+r.redis.abandoned
	if !r.redis.empty.IsZero() {
		r.out.EmptyAt = r.redis.empty.Sub(r.started)
	}
	for _, s := range r.servers {
		r.stop(s)
	}
	r.parts.Wait()
	return &r.out
}
