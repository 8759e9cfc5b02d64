package redispool

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/kgstest"
)

func TestBreakerOpensWhileRedisIsFrozen(t *testing.T) {
	t.Parallel()
	const failures = 3 // consecutive failures that open the breaker
	server := testenv.StartRedis(t)
	p, _ := newTestPool(t, openClient(t, server.Addr), "holder")
	openEpoch(t, p, 1)
	mustPush(t, p, testRange(1, 0, 1000))
	b := kgs.NewBreaker(p, "pool", slog.New(slog.DiscardHandler))

	patient := p.client
	p.client = openProgramClient(t, server.URL)
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for range failures {
		if _, err := b.Take(ctx, 10); err == nil || ctx.Err() != nil {
			t.Fatalf("Take from a frozen Redis: error %v, error of the context %v; want a timeout of the call", err, ctx.Err())
		}
	}
	// If this process pauses for a second, the breaker is half-open and lets one more call through.
	kgstest.Await(t, "the breaker refuses a Take", func() bool {
		_, err := b.Take(ctx, 10)
		return errors.Is(err, gobreaker.ErrOpenState)
	})
	server.Resume()
	p.client = patient

	var batch *kgs.Batch
	kgstest.Await(t, "a key from the thawed Redis", func() bool {
		var err error
		batch, err = b.Take(ctx, 10)
		return err == nil
	})
	if !slices.Equal(batch.Codes, kgstest.Codes(0, 10)) {
		t.Errorf("the first batch after the freeze has the codes %v, want the first 10 codes", batch.Codes)
	}
	if err := b.Settle(ctx, batch, nil, nil); err != nil {
		t.Errorf("Settle: %v", err)
	}
	if list, batches := snapshot(t, p); len(list) != 990 || len(batches) != 0 {
		t.Errorf("the list has %d keys and the batches have %d keys, want 990 and 0", len(list), len(batches))
	}
}
