package kgs

import (
	"context"
	"errors"
	"keypool/internal/testenv"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"
)

func TestBreakerWithFrozenRedis(t *testing.T) {
	t.Parallel()
	const failures = 3 // in a row open a breaker
	server := testenv.StartRedis(t)
	p, _ := newTestPool(t, openClient(t, server.Addr), "holder")
	openEpoch(t, p, 1)
	mustPush(t, p, testRange(1, 0, 1000))
	b := NewBreaker(p, slog.New(slog.DiscardHandler))

	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range failures {
		if _, err := b.Take(ctx, 10); err == nil || ctx.Err() != nil {
			t.Fatalf("Take from a frozen Redis: %v, and %v; it is to give up by itself", err, ctx.Err())
		}
	}
	if _, err := b.Take(ctx, 10); !errors.Is(err, gobreaker.ErrOpenState) {
		t.Errorf("Take after %d that timed out: %v, want the breaker open", failures, err)
	}
	server.Resume()

	var batch *Batch
	await(t, "a key from the thawed Redis", func() bool {
		var err error
		batch, err = b.Take(ctx, 10)
		return err == nil
	})
	if !slices.Equal(batch.Codes, codes(0, 10)) {
		t.Errorf("the frozen takes cost keys: got %v", batch.Codes)
	}
	if err := b.Settle(ctx, batch, nil, nil); err != nil {
		t.Errorf("Settle: %v", err)
	}
	if list, batches := snapshot(t, p); len(list) != 990 || len(batches) != 0 {
		t.Errorf("%d keys in the pool and %d on record, want 990 and none", len(list), len(batches))
	}
}
