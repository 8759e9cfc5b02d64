package kgs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	breakerFailures = 3           // in a row, until it opens
	breakerPause    = time.Second // open, until one call is let through again
)

// Breaker keeps a process from waiting again and again for a pool that does not answer, as
// one on a Redis or a remote KGS may not.
// After three calls in a row have failed it is open: calls fail at once. A second later
// it is half-open: one call is let through, and decides whether it closes.
//
// That the pool has nothing to give (ErrEmpty, ErrNoEpoch, ErrFenced) is an answer, not
// a failure; that the caller itself gave up (context.Canceled) counts for neither. A
// call that is not let through fails with gobreaker.ErrOpenState or, while another one
// is trying, gobreaker.ErrTooManyRequests. All methods may be called concurrently.
type Breaker struct {
	pool    Supply
	circuit *gobreaker.CircuitBreaker[struct{}]
}

var _ Supply = (*Breaker)(nil)

// NewBreaker makes a closed breaker in front of pool. It logs each change of its state.
func NewBreaker(pool Supply, log *slog.Logger) *Breaker {
	return &Breaker{pool: pool, circuit: NewCircuit[struct{}](answered, log.With(slog.String("of", "pool")))}
}

// NewCircuit makes a closed circuit breaker, as [Breaker] describes it. It logs each change
// of its state with the error of the last call. An error for which isAnswer is true counts as
// a success; nil if there is no such error.
func NewCircuit[T any](isAnswer func(error) bool, log *slog.Logger) *gobreaker.CircuitBreaker[T] {
	var last error // under the lock of the library, which it holds while it calls either function
	return gobreaker.NewCircuitBreaker[T](gobreaker.Settings{
		Timeout:     breakerPause, // the library's default is a minute
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakerFailures },
		IsSuccessful: func(err error) bool {
			last = err
			return err == nil || isAnswer != nil && isAnswer(err)
		},
		IsExcluded: func(err error) bool { return errors.Is(err, context.Canceled) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			log.Warn("circuit breaker", slog.String("state", to.String()), slog.String("previous", from.String()),
				slog.Any("last", last))
		},
	})
}

// answered reports an error of a pool that is alive and has nothing to give.
func answered(err error) bool {
	return errors.Is(err, ErrEmpty) || errors.Is(err, ErrNoEpoch) || errors.Is(err, ErrFenced)
}

// State is closed (0), half-open (1) or open (2).
func (b *Breaker) State() gobreaker.State { return b.circuit.State() }

// Take is that of the pool.
func (b *Breaker) Take(ctx context.Context, n int) (batch *Batch, err error) {
	err = b.do(func() error {
		batch, err = b.pool.Take(ctx, n)
		return err
	})
	return batch, err
}

// Settle is that of the pool.
func (b *Breaker) Settle(ctx context.Context, batch *Batch, unused, lost []string) error {
	return b.do(func() error { return b.pool.Settle(ctx, batch, unused, lost) })
}

// Guard makes status, which asks the pool behind b, fail as b's own methods do while b is open.
func Guard[S any](b *Breaker, status func(context.Context) (S, error)) func(context.Context) (S, error) {
	return func(ctx context.Context) (s S, err error) {
		err = b.do(func() error {
			s, err = status(ctx)
			return err
		})
		return s, err
	}
}

func (b *Breaker) do(call func() error) error {
	_, err := b.circuit.Execute(func() (struct{}, error) { return struct{}{}, call() })
	return err
}
