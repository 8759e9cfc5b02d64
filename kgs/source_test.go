package kgs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// stubSupply is an in-memory supply that can fail or delay its answers.
type stubSupply struct {
	mu       sync.Mutex
	next     int
	sizes    []int         // the argument n of each successful Take
	err      error         // the error of Take and Settle
	settling error         // an error that only Settle returns
	delay    time.Duration // the duration of Take
	returned []string
	lost     []string
	settled  int
	inFlight int
	overlaps bool // whether two calls of Take overlapped
}

func (s *stubSupply) Take(ctx context.Context, n int) (*Batch, error) {
	s.mu.Lock()
	s.inFlight++
	s.overlaps = s.overlaps || s.inFlight > 1
	delay := s.delay
	s.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	if err := errors.Join(s.err, ctx.Err()); err != nil {
		return nil, err
	}
	b := &Batch{ID: int64(len(s.sizes)), Source: "pool"}
	for range n {
		b.Codes = append(b.Codes, fmt.Sprintf("%06d", s.next))
		s.next++
	}
	s.sizes = append(s.sizes, n)
	return b, nil
}

func (s *stubSupply) Settle(_ context.Context, _ *Batch, unused, lost []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(s.err, s.settling); err != nil {
		return err
	}
	s.settled++
	s.returned = append(s.returned, unused...)
	s.lost = append(s.lost, lost...)
	return nil
}

func (s *stubSupply) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *stubSupply) failSettle(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settling = err
}

func newTestSource(t *testing.T, supply Supply, change ...func(*SourceConfig)) *Source {
	t.Helper()
	cfg := SourceConfig{
		Supply: supply, Min: 100, Max: 100_000,
		Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry()),
	}
	for _, f := range change {
		f(&cfg)
	}
	return NewSource(cfg)
}

func closeSource(t *testing.T, s *Source) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func mustNext(t *testing.T, s *Source) Key {
	t.Helper()
	k, err := s.Next(t.Context(), "", 0)
	if err != nil {
		t.Fatalf("Next: %v", err)
	}
	return k
}

// wantNoWait calls Next on an empty source and expects it to fail without waiting.
func wantNoWait(t *testing.T, s *Source, what string) {
	t.Helper()
	start := time.Now()
	if _, err := s.Next(t.Context(), "", 0); !errors.Is(err, ErrNoKeys) {
		t.Errorf("Next on an empty batch: %v, want ErrNoKeys", err)
	}
	if waited := time.Since(start); waited != 0 {
		t.Errorf("Next waited %v for %s, want no wait", waited, what)
	}
}

func TestSourceHandsOutEachKeyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		supply := &stubSupply{delay: time.Millisecond}
		s := newTestSource(t, supply)
		var mu sync.Mutex
		seen := make(map[string]bool)
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				for range 500 {
					k, err := s.Next(context.Background(), "", 0)
					if err != nil {
						t.Errorf("Next: %v", err)
						return
					}
					mu.Lock()
					if seen[k.Code] {
						t.Errorf("%s was handed out twice", k.Code)
					}
					seen[k.Code] = true
					mu.Unlock()
					k.Batch.Used()
				}
			})
		}
		wg.Wait()
		closeSource(t, s)
		if got := len(seen) + len(supply.returned); got != supply.next {
			t.Errorf("%d keys were handed out and %d were returned, but the source took %d", len(seen), len(supply.returned), supply.next)
		}
		if supply.overlaps {
			t.Error("two refills ran at once")
		}
	})
}

func TestSourceKeepsSpareBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		supply := &stubSupply{}
		s := newTestSource(t, supply)
		defer closeSource(t, s)
		synctest.Wait()
		if got := s.Local(); got != 200 {
			t.Fatalf("an idle source holds %d keys, want two batches of 100", got)
		}
		// While the supply fails, the source still hands out all its keys without waiting.
		supply.fail(errors.New("no connection"))
		start := time.Now()
		for range 200 {
			mustNext(t, s).Batch.Used()
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("handing out 200 local keys took %v, want no wait", waited)
		}
		supply.fail(nil)
	})
}

func TestSourceFailsAtOnceWhileSupplyIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		supply := &stubSupply{}
		s := newTestSource(t, supply)
		defer closeSource(t, s)
		synctest.Wait()
		supply.mu.Lock()
		supply.err, supply.delay = errors.New("hung"), time.Hour // every take runs into its timeout
		supply.mu.Unlock()
		for range 101 { // key 101 is the first key of the spare batch, so a refill for a new spare batch begins
			mustNext(t, s).Batch.Used()
		}
		<-time.After(3 * time.Second) // fake time: the refill has failed by now
		for range 99 {
			mustNext(t, s).Batch.Used()
		}
		wantNoWait(t, s, "a supply that is down")
		supply.mu.Lock()
		supply.err, supply.delay = nil, 0
		supply.mu.Unlock()
		<-time.After(3 * maxBackoff)
		mustNext(t, s).Batch.Used()
	})
}

// In this test, one part of the supply does not answer, so the batches of this part cannot be settled. The
// source must still take new batches from the other parts.
func TestSourceTakesBatchesWhileFinishedBatchesCannotBeSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		supply := &stubSupply{}
		s := newTestSource(t, supply, func(c *SourceConfig) { c.Max = 100 })
		defer closeSource(t, s)
		supply.failSettle(errors.New("a part is down"))
		for range maxUnsettled {
			for range 100 {
				mustNext(t, s).Batch.Used()
			}
			synctest.Wait()
		}
		if n := s.unsettled(); n != maxUnsettled {
			t.Errorf("%d batches wait to be settled, want %d", n, maxUnsettled)
		}
		// The source holds at most two more batches, and must not take a further batch.
		for s.Local() > 0 {
			mustNext(t, s).Batch.Used()
			synctest.Wait()
		}
		if k, err := s.Next(t.Context(), "", 0); !errors.Is(err, ErrNoKeys) {
			t.Errorf("Next = %+v, %v while too many batches wait, want ErrNoKeys", k, err)
		}
		supply.failSettle(nil)
		<-time.After(2 * maxBackoff)
		if n := s.unsettled(); n != 0 {
			t.Errorf("%d batches wait to be settled after the part is up, want 0", n)
		}
		mustNext(t, s).Batch.Used()
	})
}

// An idle source settles its finished batch when the supply answers again.
func TestSourceSettlesBatchAfterSupplyRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		supply := &stubSupply{}
		s := newTestSource(t, supply, func(c *SourceConfig) { c.Max = 100 })
		defer closeSource(t, s)
		synctest.Wait()
		supply.failSettle(errors.New("down"))
		for range 100 {
			mustNext(t, s).Batch.Used()
		}
		synctest.Wait()
		supply.failSettle(nil)
		<-time.After(2 * maxBackoff)
		if n := s.unsettled(); n != 0 {
			t.Errorf("%d batches wait to be settled, want 0", n)
		}
	})
}

// In this test, the source becomes empty during a refill that hangs but has not failed yet.
func TestSourceDoesNotWaitForHungRefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		supply := &stubSupply{}
		s := newTestSource(t, supply)
		defer closeSource(t, s)
		synctest.Wait()
		supply.mu.Lock()
		supply.delay = time.Hour
		supply.mu.Unlock()
		for range 101 { // key 101 is the first key of the spare batch, so a refill begins
			mustNext(t, s).Batch.Used()
		}
		<-time.After(s.cfg.Patience) // fake time: the refill is older than Patience now
		for range 99 {
			mustNext(t, s).Batch.Used()
		}
		wantNoWait(t, s, "a refill that hangs")
		supply.mu.Lock()
		supply.delay = 0
		supply.mu.Unlock()
		<-time.After(s.cfg.Timeout + maxBackoff)
		mustNext(t, s).Batch.Used()
	})
}

func TestSourceWaitsForFirstBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		supply := &stubSupply{err: ErrEmpty}
		s := newTestSource(t, supply)
		defer closeSource(t, s)
		go func() {
			<-time.After(100 * time.Millisecond) // fake time: the worker pushes its first keys
			supply.fail(nil)
		}()
		mustNext(t, s).Batch.Used()
		if got := time.Since(s.started); got > s.cfg.Patience {
			t.Errorf("the first key came after %v, want at most Patience", got)
		}
	})
}

func TestSourceChoosesBatchSizeByRateOfUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		supply := &stubSupply{}
		s := newTestSource(t, supply)
		defer closeSource(t, s)
		for range 20_000 { // for 20 s, the test takes 1,000 keys a second
			mustNext(t, s).Batch.Used()
			<-time.After(time.Millisecond)
		}
		synctest.Wait() // a refill may be running
		last := supply.sizes[len(supply.sizes)-1]
		if want := int(1000 * s.cfg.Hold.Seconds()); last < want*9/10 || last > want*11/10 {
			t.Errorf("the last batch has %d keys at 1,000/s, want about %d", last, want)
		}
		if taken := s.Taken(); taken != 20_000 {
			t.Errorf("Taken() = %d, want 20,000", taken)
		}
	})
}

// After a stall, many creations arrive at once. This short burst must not determine the size of the next
// batch.
func TestSourceLimitsGrowthOfBatchSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		supply := &stubSupply{}
		s := newTestSource(t, supply)
		defer closeSource(t, s)
		synctest.Wait()
		for range 150 {
			mustNext(t, s).Batch.Used()
		}
		synctest.Wait()
		if diff := cmp.Diff([]int{100, 100, 100 * maxGrowth}, supply.sizes); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSourceReportsEveryOutcomeToSupply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		supply := &stubSupply{}
		s := newTestSource(t, supply)
		synctest.Wait()
		a, b, c := mustNext(t, s), mustNext(t, s), mustNext(t, s)
		a.Batch.Used()
		b.Batch.Lost(b.Code)
		c.Batch.Returned(c.Code)
		if again := mustNext(t, s); again.Code != c.Code || !again.Again || c.Again {
			t.Errorf("after Returned(%s) the next key is %+v, want the returned key, marked", c.Code, again)
		} else {
			again.Batch.Returned(again.Code)
		}
		if taken := s.Taken(); taken != 3 {
			t.Errorf("Taken() = %d, want 3: a key that is handed out again counts once", taken)
		}
		closeSource(t, s)
		if len(supply.lost) != 1 || supply.lost[0] != b.Code {
			t.Errorf("lost = %v, want %s", supply.lost, b.Code)
		}
		if got := len(supply.returned); got != 198 {
			t.Errorf("%d keys were returned, want 198", got)
		}
		if _, err := s.Next(t.Context(), "", 0); !errors.Is(err, ErrNoKeys) {
			t.Errorf("Next after Close: %v, want ErrNoKeys", err)
		}
	})
}

func TestSourceSettlesBatchOnlyWhenEveryOutcomeIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		supply := &stubSupply{}
		s := newTestSource(t, supply)
		defer closeSource(t, s)
		synctest.Wait()
		inFlight := mustNext(t, s)
		for range 150 {
			mustNext(t, s).Batch.Used()
		}
		synctest.Wait()
		if supply.settled != 0 {
			t.Fatal("a batch was settled while the outcome of one key was unknown, so a crash would lose the key without a record")
		}
		inFlight.Batch.Used()
		synctest.Wait()
		if supply.settled != 1 {
			t.Errorf("%d batches settled, want 1", supply.settled)
		}
	})
}

// Close waits for a running call of the supply, and returns the keys of this call.
func TestSourceCloseReturnsKeysOfTakeInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		supply := &stubSupply{delay: time.Second}
		s := newTestSource(t, supply)
		synctest.Wait() // the source waits for its first batch
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(supply.sizes) != 1 || len(supply.returned) != supply.sizes[0] {
			t.Errorf("the supply gave %v keys and got %d back, want one batch and all of its keys", supply.sizes, len(supply.returned))
		}
	})
}

// If a server stops while a part of its store is down, it may have to return up to 131,072 keys of a few batches. The
// stop would take too long if retract copied the list of unused keys of a batch each time it adds a key.
func TestSourceRetractMakesFewAllocations(t *testing.T) {
	const keys = 10_000
	s := &Source{live: make(map[*LocalBatch]struct{})}
	l := newLocalBatch(s, &Batch{Codes: make([]string, keys, 2*keys)})
	s.live[l] = struct{}{}
	returned := make([]Key, keys)
	for i := range returned {
		returned[i] = Key{Code: fmt.Sprint(i), Batch: l}
	}
	allocations := testing.AllocsPerRun(1, func() {
		l.next.Store(keys)
		s.returned = returned
		if got := len(s.retract()[l]); got != keys {
			t.Errorf("%d keys were retracted, want %d", got, keys)
		}
	})
	if allocations > 100 {
		t.Errorf("retract of %d keys makes %.0f allocations, want at most 100", keys, allocations)
	}
}
