package kgs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	breakerFailures = 3           // number of consecutive failures that opens the breaker
	breakerPause    = time.Second // time for which the breaker stays open before it lets one call through
	breakerReminder = time.Minute // shortest time between two log lines while calls through the half-open breaker fail
)

// Breaker is a circuit breaker in front of a pool. While the pool does not answer, for example because
// Redis is down, calls fail at once, so that callers do not wait for a timeout.
//
// The breaker opens after three calls in a row have failed. While the breaker is open, calls
// fail at once with gobreaker.ErrOpenState. After one second the breaker is half-open. It then
// lets one call through, and other calls fail with gobreaker.ErrTooManyRequests. If that call
// succeeds, the breaker closes. If that call fails, the breaker opens again.
//
// ErrEmpty, ErrNoEpoch, ErrFenced and ErrExhausted count as successes, because the pool answered.
// context.Canceled counts neither as a success nor as a failure, because the caller cancelled
// the call.
//
// All methods are safe for concurrent use. A call that the breaker lets through blocks for as long as the call of the
// pool.
type Breaker struct {
	pool    Supply
	circuit *gobreaker.CircuitBreaker[struct{}]
}

var _ Supply = (*Breaker)(nil)

// NewBreaker returns a closed breaker in front of pool. Each of its log lines contains the given name, such as "pool"
// or "key service".
func NewBreaker(pool Supply, name string, log *slog.Logger) *Breaker {
	return &Breaker{pool: pool, circuit: NewCircuit[struct{}](answered, log.With(slog.String("of", name)))}
}

// NewCircuit returns a closed circuit breaker with the thresholds that [Breaker] documents. The breaker logs when it
// opens and when it closes. While the test calls of the half-open breaker fail, the breaker logs a reminder at most
// once a minute. An error for which isAnswer returns true counts as a success; isAnswer may be nil. context.Canceled
// counts neither as a success nor as a failure. Every other error counts as a failure.
func NewCircuit[T any](isAnswer func(error) bool, log *slog.Logger) *gobreaker.CircuitBreaker[T] {
	// The library calls IsSuccessful and OnStateChange under its own lock. This lock also guards the
	// variables last and logged.
	var last error
	var logged time.Time // time of the last log line that said that the breaker is open
	return gobreaker.NewCircuitBreaker[T](gobreaker.Settings{
		Timeout:     breakerPause, // the library's default is one minute
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakerFailures },
		IsSuccessful: func(err error) bool {
			last = err
			return err == nil || isAnswer != nil && isAnswer(err)
		},
		IsExcluded: func(err error) bool { return errors.Is(err, context.Canceled) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case to == gobreaker.StateClosed:
				log.Info("circuit breaker closed")
			case to == gobreaker.StateOpen && from == gobreaker.StateClosed:
				log.Warn("circuit breaker opened", slog.Any("error", last))
				logged = time.Now()
			case to == gobreaker.StateOpen && time.Since(logged) >= breakerReminder: // the test call failed
				log.Warn("circuit breaker still open", slog.Any("error", last))
				logged = time.Now()
			}
		},
	})
}

// answered reports whether err shows that the pool was reachable and answered.
func answered(err error) bool {
	return errors.Is(err, ErrEmpty) || errors.Is(err, ErrNoEpoch) || errors.Is(err, ErrFenced) || errors.Is(err, ErrExhausted)
}

// State returns the state of the breaker: closed (0), half-open (1) or open (2).
func (b *Breaker) State() gobreaker.State { return b.circuit.State() }

// Take calls the pool's Take through the breaker.
func (b *Breaker) Take(ctx context.Context, n int) (batch *Batch, err error) {
	err = b.do(func() error {
		batch, err = b.pool.Take(ctx, n)
		return err
	})
	return batch, err
}

// Settle calls the pool's Settle through the breaker.
func (b *Breaker) Settle(ctx context.Context, batch *Batch, unused, lost []string) error {
	return b.do(func() error { return b.pool.Settle(ctx, batch, unused, lost) })
}

// Guard returns a function that calls status through the breaker b. The function status queries the pool behind b.
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
