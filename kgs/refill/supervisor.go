package refill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Runner is what a Supervisor runs: a [Worker] or [Workers].
type Runner interface {
	Run(ctx context.Context) error // runs until ctx ends
	Rate() float64                 // number of keys per second that arrive in the pool
}

// Supervisor runs a worker and can replace it with a new worker. Restart and Rate may be called
// concurrently with Run.
type Supervisor struct {
	build   func() Runner
	log     *slog.Logger
	restart chan struct{}

	running sync.WaitGroup

	mu     sync.Mutex
	worker Runner
}

// NewSupervisor returns a supervisor that calls build for every worker it runs. A new worker of a shared
// pool must be able to take over the ranges of a worker that hangs. Therefore each worker of such a pool
// must have its own holder name in the ledger.
func NewSupervisor(build func() Runner, log *slog.Logger) *Supervisor {
	return &Supervisor{build: build, log: log, restart: make(chan struct{}, 1), worker: build()}
}

// patience limits how long Run waits for the end of a replaced worker. After this time, Run starts the new worker anyway.
const patience = 15 * time.Second

// Run runs workers until ctx ends, and returns the error of the last worker. Before Run starts the next worker, Run
// waits for the end of the replaced worker, but no longer than patience. Run does not return before all workers have
// ended.
func (s *Supervisor) Run(ctx context.Context) error {
	defer s.running.Wait()
	for {
		err := s.runOne(ctx)
		if ctx.Err() != nil {
			return err
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			s.log.Warn("a worker failed, or did not end in time after a restart", slog.Any("error", err))
		}
		select {
		case <-s.restart: // discard a request that was meant for the worker that has just ended
		default:
		}
		s.mu.Lock()
		s.worker = s.build()
		s.mu.Unlock()
	}
}

// runOne runs the current worker until ctx ends or Restart is called, and returns the error of the worker. If the worker
// still runs when patience has passed after Restart, runOne fails.
func (s *Supervisor) runOne(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	worker := s.present()
	s.running.Go(func() { ended <- worker.Run(ctx) })
	select {
	case err := <-ended:
		return err
	case <-s.restart:
		cancel()
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		return fmt.Errorf("the worker still runs after %v", patience)
	}
}

// Restart requests a new worker. It does not block.
func (s *Supervisor) Restart() {
	select {
	case s.restart <- struct{}{}:
	default: // a restart is already requested
	}
}

// Rate returns the smoothed rate, in keys per second, at which the current worker pushes keys.
func (s *Supervisor) Rate() float64 { return s.present().Rate() }

func (s *Supervisor) present() Runner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worker
}
