// Package refill keeps a pool full and watches it.
//
// A [Worker] fills a pool, by a [Filler], whenever the pool falls below its low water mark.
// A [Supervisor] runs a worker and replaces it on request. A [DeadMan] watches the pool
// itself, not the worker: it restarts the worker when the pool gets low, and pages when that
// does not help.
//
// Invariant: any number of workers may fill one pool; together they exceed its capacity by
// no more than a chunk each.
package refill

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"keypool/kgs"
)

// Filler brings numbers from the ledger into one kind of pool. It is used by one
// goroutine at a time. A call that failed may be repeated: whatever of it took
// effect is neither lost nor done twice.
type Filler interface {
	// Prepare makes the pool ready to be filled: it opens a new epoch where the pool lost
	// its state, and takes back what dead holders had reserved.
	Prepare(ctx context.Context) error
	// Len is how many keys the pool holds. It changes nothing.
	Len(ctx context.Context) (int64, error)
	// Ship brings up to n more keys into the pool and reports how many arrived, also
	// when it fails half-way.
	Fill(ctx context.Context, n int64) (int64, error)
	// Release gives up, in an orderly stop, what was reserved and not shipped, so that
	// the next worker takes it over at once.
	Release(ctx context.Context) error
}

// WorkerConfig is what a Worker is made of. Zero values mean the defaults.
type WorkerConfig struct {
	Filler   Filler
	Capacity int64         // keys in a full pool
	LowWater int64         // the pool is refilled when it holds less; 9/10 of Capacity
	Chunk    int64         // keys shipped at a time; 1/20 of Capacity, from 1,000 to 200,000
	Interval time.Duration // between two looks at the pool; 200 ms
	Timeout  time.Duration // for one chunk; 10 s
	Logger   *slog.Logger
	Metrics  *kgs.Metrics
}

// Worker keeps a pool filled: when the pool falls below the low water mark it is
// filled to capacity, chunk by chunk, looking at its size before each, so that any
// number of workers together overshoot by no more than a chunk each.
type Worker struct {
	cfg WorkerConfig

	mu      sync.Mutex
	shipped int64
	rate    kgs.EWMA // of keys shipped
}

// NewWorker makes a worker; Run works.
func NewWorker(cfg WorkerConfig) *Worker {
	cfg.Interval = cmp.Or(cfg.Interval, 200*time.Millisecond)
	cfg.Timeout = cmp.Or(cfg.Timeout, 10*time.Second)
	if cfg.LowWater == 0 {
		cfg.LowWater = LowWater(cfg.Capacity)
	}
	if cfg.Chunk == 0 {
		cfg.Chunk = min(max(cfg.Capacity/20, 1000), 200_000)
	}
	return &Worker{cfg: cfg, rate: kgs.NewEWMA(time.Now())}
}

// Run keeps the pool filled until ctx ends, then releases what is under way within
// Timeout. A pool or ledger that fails is tried again with back-off, without end.
func (w *Worker) Run(ctx context.Context) error {
	backoff := w.cfg.Interval
	failures := kgs.NewFailureLog(w.cfg.Logger, "the pool is not refilled")
	for ctx.Err() == nil {
		err := w.fill(ctx)
		if ctx.Err() == nil {
			failures.Note(err)
		}
		if err == nil {
			backoff = w.cfg.Interval
		}
		w.sample()
		select {
		case <-ctx.Done():
		case <-time.After(backoff):
		}
		if err != nil {
			backoff = min(2*backoff, 5*w.cfg.Interval)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.Timeout)
	defer cancel()
	return w.cfg.Filler.Release(ctx)
}

// fill brings a pool below the low water mark up to capacity.
func (w *Worker) fill(ctx context.Context) error {
	for mark := w.cfg.LowWater; ctx.Err() == nil; mark = w.cfg.Capacity {
		done, err := w.step(ctx, mark)
		if err != nil || done {
			return err
		}
	}
	return nil
}

// step ships one chunk when the pool holds fewer than mark keys. The round is done when
// it does not, and also when nothing arrived: to ask again at once would only spin.
func (w *Worker) step(ctx context.Context, mark int64) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	if err := w.cfg.Filler.Prepare(ctx); err != nil {
		return true, err
	}
	size, err := w.cfg.Filler.Len(ctx)
	if err != nil || size >= mark {
		return true, err
	}
	n, err := w.cfg.Filler.Fill(ctx, min(w.cfg.Chunk, w.cfg.Capacity-size))
	if n > 0 {
		w.cfg.Metrics.CountPushed(n)
		w.mu.Lock()
		w.shipped += n
		w.mu.Unlock()
	}
	return n == 0, err
}

func (w *Worker) sample() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rate.Sample(w.shipped, time.Now())
}

// Rate is how many keys per second this worker shipped of late.
func (w *Worker) Rate() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rate.Rate()
}

// LowWater is the level below which a pool is refilled, and above which it counts as full.
func LowWater(capacity int64) int64 { return capacity - capacity/10 }
