package refill

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Supervisor runs a worker and can put a new one in its place.
type Supervisor struct {
	build   func() *Worker
	log     *slog.Logger
	restart chan struct{}

	running sync.WaitGroup

	mu     sync.Mutex
	worker *Worker
}

// NewSupervisor makes a supervisor of workers that build makes from nothing. A worker
// for a shared pool has a name of its own in the ledger, so that what one that hangs
// had reserved can be adopted from it.
func NewSupervisor(build func() *Worker, log *slog.Logger) *Supervisor {
	return &Supervisor{build: build, log: log, restart: make(chan struct{}, 1), worker: build()}
}

// patience is how long a worker that is replaced may take to end in good order.
const patience = 15 * time.Second

// Run works until ctx ends. A worker that is replaced is waited for, but not for ever:
// one that hangs is left behind, and only the end of Run waits for it.
func (s *Supervisor) Run(ctx context.Context) error {
	defer s.running.Wait()
	for {
		err := s.runOne(ctx)
		if ctx.Err() != nil {
			return err
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			s.log.Warn("the worker that was replaced did not end in good order", slog.Any("error", err))
		}
		select {
		case <-s.restart: // of the one that hung, not of the one to come
		default:
		}
		s.mu.Lock()
		s.worker = s.build()
		s.mu.Unlock()
	}
}

// runOne runs the present worker until ctx ends or a restart is asked for.
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
		return errors.New("it hangs and was left behind")
	}
}

// Restart asks for a new worker and does not wait for it.
func (s *Supervisor) Restart() {
	select {
	case s.restart <- struct{}{}:
	default: // one is on its way
	}
}

// Rate is how many keys per second the present worker shipped of late.
func (s *Supervisor) Rate() float64 { return s.present().Rate() }

func (s *Supervisor) present() *Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worker
}
