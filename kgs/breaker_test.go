package kgs

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"
)

// scriptedPool is a pool whose calls all return err.
type scriptedPool struct {
	err   error
	calls int
}

func (p *scriptedPool) Take(context.Context, int) (*Batch, error) {
	p.calls++
	return &Batch{ID: 1}, p.err
}

func (p *scriptedPool) Settle(context.Context, *Batch, []string, []string) error {
	p.calls++
	return p.err
}

func (p *scriptedPool) Status(context.Context) (PoolStatus, error) {
	p.calls++
	return PoolStatus{Keys: 5}, p.err
}

func wantState(t *testing.T, b *Breaker, want gobreaker.State) {
	t.Helper()
	if got := b.State(); got != want {
		t.Errorf("the breaker is %v, want %v", got, want)
	}
}

func TestBreakerOpensAfterFailuresAndClosesAfterSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &scriptedPool{err: errors.New("connection refused")}
		b := NewBreaker(pool, "pool", slog.New(slog.DiscardHandler))
		wantState(t, b, gobreaker.StateClosed)
		_, _ = b.Take(t.Context(), 1)
		_ = b.Settle(t.Context(), &Batch{}, nil, nil)
		wantState(t, b, gobreaker.StateClosed)
		status := Guard(b, pool.Status)
		_, _ = status(t.Context())
		wantState(t, b, gobreaker.StateOpen)
		if _, err := b.Take(t.Context(), 1); !errors.Is(err, gobreaker.ErrOpenState) || pool.calls != 3 {
			t.Errorf("Take on an open breaker: error %v, %d calls of the pool; want ErrOpenState and 3", err, pool.calls)
		}
		time.Sleep(breakerPause + 1)
		wantState(t, b, gobreaker.StateHalfOpen)
		if _, err := b.Take(t.Context(), 1); !errors.Is(err, pool.err) {
			t.Errorf("Take on a half-open breaker: error %v, want %v", err, pool.err)
		}
		wantState(t, b, gobreaker.StateOpen)

		time.Sleep(breakerPause + 1)
		pool.err = nil
		if s, err := status(t.Context()); s.Keys != 5 || err != nil {
			t.Errorf("Status through a half-open breaker = %+v, %v, want 5 keys", s, err)
		}
		wantState(t, b, gobreaker.StateClosed)
		if batch, err := b.Take(t.Context(), 1); batch.ID != 1 || err != nil {
			t.Errorf("Take through a closed breaker = %v, %v, want batch 1", batch, err)
		}
	})
}

// In an outage of three minutes, the breaker logs that it opened. Then it logs once a minute that it is still open. At
// the end it logs that it closed.
func TestBreakerLogsStateChangesAndOneReminderPerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		pool := &scriptedPool{err: errors.New("connection refused")}
		b := NewBreaker(pool, "pool", slog.New(slog.NewTextHandler(&log, nil)))
		for range 3 * 60 {
			_, _ = b.Take(t.Context(), 1)
			time.Sleep(breakerPause + time.Millisecond)
		}
		pool.err = nil
		_, _ = b.Take(t.Context(), 1)
		for text, want := range map[string]int{"\n": 4, "breaker opened": 1, "still open": 2, "breaker closed": 1, "connection refused": 3} {
			if got := strings.Count(log.String(), text); got != want {
				t.Errorf("the log has %q %d times, want %d:\n%s", text, got, want, log.String())
			}
		}
	})
}

func TestBreakerDistinguishesAnswersFromFailures(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err  error
		want gobreaker.State
	}{
		{nil, gobreaker.StateClosed},
		{ErrEmpty, gobreaker.StateClosed},
		{ErrNoEpoch, gobreaker.StateClosed},
		{ErrFenced, gobreaker.StateClosed},
		{ErrExhausted, gobreaker.StateClosed},
		{context.Canceled, gobreaker.StateClosed},
		{context.DeadlineExceeded, gobreaker.StateOpen},
		{errors.New("i/o timeout"), gobreaker.StateOpen},
	}
	for _, tt := range tests {
		b := NewBreaker(&scriptedPool{err: tt.err}, "pool", slog.New(slog.DiscardHandler))
		for range 10 {
			_, _ = b.Take(t.Context(), 1)
		}
		if got := b.State(); got != tt.want {
			t.Errorf("after ten calls with error %v the breaker is %v, want %v", tt.err, got, tt.want)
		}
	}
}
