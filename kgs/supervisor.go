package kgs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
)

// Supervisor runs a worker and can put a new one in its place.
type Supervisor struct {
	build   func() *Worker
	log     *slog.Logger
	restart chan struct{}

	mu     sync.Mutex
	worker *Worker
}

// NewSupervisor makes a supervisor of workers that build makes from nothing: each
// has a name of its own in the ledger, so what a worker that hangs had reserved can
// be adopted from it.
func NewSupervisor(build func() *Worker, log *slog.Logger) *Supervisor {
	return &Supervisor{build: build, log: log, restart: make(chan struct{}, 1), worker: build()}
}

// Run works until ctx ends. A worker that is restarted is waited for: every step of
// it is bounded in time.
func (s *Supervisor) Run(ctx context.Context) error {
	for {
		err := s.runOne(ctx)
		if ctx.Err() != nil {
			return err
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			s.log.Warn("the worker that was restarted did not release its range", slog.Any("error", err))
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
	go func() { ended <- s.present().Run(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-s.restart:
		cancel()
		return <-ended
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
