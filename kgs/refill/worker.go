// Package refill keeps a pool full and watches it.
//
// Vocabulary:
//
//   - a [Worker] fills a pool through a [Filler] when the pool is below its low-water mark;
//   - a [Supervisor] runs a worker and replaces it on request;
//   - a [DeadMansSwitch] is a dead man's switch. It watches the pool rather than the worker. It
//     restarts the worker when the pool is low, and pages an operator when the pool is even
//     lower.
//
// Invariant: any number of workers may fill one pool. Together they exceed the capacity of the
// pool by at most one chunk for each worker.
package refill

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"keypool/kgs"
)

// Filler pushes keys to one kind of pool. Only one goroutine uses a Filler at a time. The caller
// may repeat a failed call. If a part of the failed call took effect, the repetition does the rest.
type Filler interface {
	// Prepare makes the pool ready to be filled. If the pool lost its state, Prepare opens a new
	// epoch (see package kgs). It may also make the reserved keys of dead holders available again.
	Prepare(ctx context.Context) error
	// Len returns how many keys the pool holds. It changes nothing.
	Len(ctx context.Context) (int64, error)
	// Fill pushes about n more keys to the pool. It may push the whole rest of a range that was reserved
	// earlier, which can be more than n keys. It returns how many keys arrived, even if it also returns
	// an error.
	Fill(ctx context.Context, n int64) (int64, error)
	// Release ends the use of the Filler. The next worker can then immediately take over the keys
	// that are reserved but not yet pushed. A worker calls Release when it stops.
	Release(ctx context.Context) error
}

// WorkerConfig configures a Worker. Zero values mean the defaults stated below.
type WorkerConfig struct {
	Filler   Filler
	Capacity int64         // keys in a full pool
	LowWater int64         // the worker refills a pool with fewer keys; default 9/10 of Capacity
	Chunk    int64         // number of keys pushed at a time; default 1/20 of Capacity, between 1,000 and 200,000
	Interval time.Duration // time between two checks of the size of the pool; default 200 ms
	Timeout  time.Duration // longest duration of the push of one chunk; default 10 s
	Logger   *slog.Logger
	Metrics  *kgs.Metrics
}

// Worker keeps a pool full. When the pool falls below the low-water mark, the worker fills it to
// its capacity, chunk by chunk. The worker checks the size of the pool before each chunk.
// Therefore several workers together exceed the capacity by at most one chunk for each worker.
type Worker struct {
	cfg  WorkerConfig
	mark int64 // the pool needs keys if it has fewer keys than mark: the low-water mark, or the capacity during a refill

	mu     sync.Mutex
	pushed int64
	rate   kgs.EWMA // rate of pushed keys
}

// NewWorker returns a worker. Run starts it.
func NewWorker(cfg WorkerConfig) *Worker {
	cfg.Interval = cmp.Or(cfg.Interval, 200*time.Millisecond)
	cfg.Timeout = cmp.Or(cfg.Timeout, 10*time.Second)
	if cfg.LowWater == 0 {
		cfg.LowWater = LowWater(cfg.Capacity)
	}
	if cfg.Chunk == 0 {
		cfg.Chunk = min(max(cfg.Capacity/20, 1000), 200_000)
	}
	return &Worker{cfg: cfg, mark: cfg.LowWater, rate: kgs.NewEWMA(time.Now())}
}

// Run keeps the pool full until ctx ends. If the pool or the ledger fails, Run tries again
// without limit. The delay between two attempts grows to five times Interval. At the end Run
// calls Filler.Release, for at most Timeout, and returns the error of that call.
func (w *Worker) Run(ctx context.Context) error {
	backoff := w.cfg.Interval
	failures := kgs.NewFailureLog(w.cfg.Logger, "refill the pool")
	for ctx.Err() == nil {
		err := w.fill(ctx)
		if ctx.Err() == nil {
			failures.Note(err)
		}
		if err == nil {
			backoff = w.cfg.Interval
		}
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

// fill brings a pool that is below the low-water mark up to its capacity. It returns when the pool needs no keys. It
// also returns when a step fails or no key arrives. In that case the next call continues the refill, even if the pool
// is above the low-water mark.
func (w *Worker) fill(ctx context.Context) error {
	for ctx.Err() == nil {
		n, err := w.step(ctx)
		w.count(n)
		if err != nil || n == 0 {
			return err
		}
	}
	return nil
}

// step pushes one chunk if the pool has fewer keys than w.mark. It returns how many keys arrived.
func (w *Worker) step(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	if err := w.cfg.Filler.Prepare(ctx); err != nil {
		return 0, err
	}
	size, err := w.cfg.Filler.Len(ctx)
	if err != nil {
		return 0, err
	}
	if size >= w.mark {
		w.mark = w.cfg.LowWater
		return 0, nil
	}
	w.mark = w.cfg.Capacity
	return w.cfg.Filler.Fill(ctx, min(w.cfg.Chunk, w.cfg.Capacity-size))
}

// count counts the keys that a step pushed and updates the rate. A step without keys lowers the rate.
func (w *Worker) count(n int64) {
	if n > 0 {
		w.cfg.Metrics.CountPushed(n)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pushed += n
	w.rate.Sample(w.pushed, time.Now())
}

// Rate returns the smoothed rate, in keys per second, at which this worker pushes keys.
func (w *Worker) Rate() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rate.Rate()
}

// LowWater returns the number of keys below which a pool is refilled. A pool with at least that
// many keys counts as full.
func LowWater(capacity int64) int64 { return capacity - capacity/10 }
