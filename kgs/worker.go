package kgs

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Shipper brings numbers from the ledger into one kind of pool. It is used by one
// goroutine at a time. A call that failed may be repeated: whatever of it took
// effect is neither lost nor done twice.
type Shipper interface {
	// Size is how many keys the pool holds, once it is open for the current epoch.
	Size(ctx context.Context) (int64, error)
	// Ship brings up to n more keys into the pool and reports how many arrived, also
	// when it fails half-way.
	Ship(ctx context.Context, n int64) (int64, error)
	// Release gives up, in an orderly stop, what was reserved and not shipped, so that
	// the next worker takes it over at once.
	Release(ctx context.Context) error
}

// WorkerConfig is what a Worker is made of. Zero values mean the defaults.
type WorkerConfig struct {
	Shipper  Shipper
	Capacity int64         // keys in a full pool
	LowWater int64         // the pool is refilled when it holds less; 9/10 of Capacity
	Chunk    int64         // keys shipped at a time; 1/20 of Capacity, from 1,000 to 200,000
	Interval time.Duration // between two looks at the pool; 200 ms
	Timeout  time.Duration // for one chunk; 10 s
	Logger   *slog.Logger
	Metrics  *Metrics
}

// Worker keeps a pool filled: when the pool falls below the low water mark it is
// filled to capacity, chunk by chunk, looking at its size before each, so that any
// number of workers together overshoot by no more than a chunk each.
type Worker struct {
	cfg WorkerConfig

	mu      sync.Mutex
	shipped int64
	rate    meter // of keys shipped
}

// NewWorker makes a worker; Run works.
func NewWorker(cfg WorkerConfig) *Worker {
	setDefault(&cfg.Interval, 200*time.Millisecond)
	setDefault(&cfg.Timeout, 10*time.Second)
	if cfg.LowWater == 0 {
		cfg.LowWater = LowWater(cfg.Capacity)
	}
	if cfg.Chunk == 0 {
		cfg.Chunk = min(max(cfg.Capacity/20, 1000), 200_000)
	}
	return &Worker{cfg: cfg, rate: meter{at: time.Now()}}
}

// Run keeps the pool filled until ctx ends, then releases what is under way within
// Timeout. A pool or ledger that fails is tried again with back-off, without end.
func (w *Worker) Run(ctx context.Context) error {
	backoff := w.cfg.Interval
	trouble := trouble{log: w.cfg.Logger, what: "the pool is not refilled"}
	for ctx.Err() == nil {
		err := w.fill(ctx)
		if ctx.Err() == nil {
			trouble.note(err)
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
	return w.cfg.Shipper.Release(ctx)
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
	size, err := w.cfg.Shipper.Size(ctx)
	if err != nil || size >= mark {
		return true, err
	}
	n, err := w.cfg.Shipper.Ship(ctx, min(w.cfg.Chunk, w.cfg.Capacity-size))
	if n > 0 {
		w.cfg.Metrics.pushed(n)
		w.mu.Lock()
		w.shipped += n
		w.mu.Unlock()
	}
	return n == 0, err
}

func (w *Worker) sample() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rate.sample(w.shipped, time.Now())
}

// Rate is how many keys per second this worker shipped of late.
func (w *Worker) Rate() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rate.perSecond
}

// LowWater is the level below which a pool is refilled, and above which it counts as full.
func LowWater(capacity int64) int64 { return capacity - capacity/10 }
