package pgpool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"keypool/kgs"
	"keypool/kgs/keysource"
	"keypool/kgs/kgstest"
	"keypool/kgs/refill"
)

func wantStatus(t *testing.T, p *Pool, want kgs.PoolStatus) {
	t.Helper()
	got, err := p.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestPostgresPoolStatusCountsTakenAndReturnedKeys(t *testing.T) {
	bothWays(t, func(t *testing.T, reserve bool) {
		k := newKeyPool(t)
		p, other := k.process("a", reserve), k.process("b", reserve)
		wantStatus(t, p, kgs.PoolStatus{})
		k.fill(kgstest.Codes(0, 100)...)
		wantStatus(t, p, kgs.PoolStatus{Keys: 100, Pushed: 100})
		kgstest.Take(t, p, 10)
		b := kgstest.Take(t, other, 20)
		for _, p := range []*Pool{p, other} {
			wantStatus(t, p, kgs.PoolStatus{Keys: 70, Pushed: 100, Taken: 30})
		}
		kgstest.Settle(t, other, b, b.Codes[:5], nil)
		wantStatus(t, p, kgs.PoolStatus{Keys: 75, Pushed: 105, Taken: 30})
		kgstest.Take(t, p, 75)
		wantStatus(t, p, kgs.PoolStatus{Pushed: 105, Taken: 105})
		k.fill(kgstest.Codes(100, 110)...)
		wantStatus(t, p, kgs.PoolStatus{Keys: 10, Pushed: 115, Taken: 105})
		k.Exec(`DELETE FROM available_keys`)
		wantStatus(t, p, kgs.PoolStatus{Pushed: 115, Taken: 115})
	})
}

// Two workers fill one pool. Each worker exceeds the capacity by at most one chunk.
func TestPostgresFillersOfOnePoolStopAtCapacity(t *testing.T) {
	t.Parallel()
	const capacity, chunk = 25_000, 5000
	k := newKeyPool(t)
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			w := refill.NewWorker(refill.WorkerConfig{
				Filler: k.filler(keysource.Random{Length: func() int { return 6 }}), Capacity: capacity, Chunk: chunk,
				Logger: slog.New(slog.DiscardHandler), Metrics: kgs.NewMetrics(prometheus.NewRegistry()),
			})
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	p := k.process("a", false)
	kgstest.Await(t, "a full pool", func() bool {
		s, err := p.Status(t.Context())
		return err == nil && s.Keys >= capacity
	})
	stop()
	workers.Wait()
	var s kgs.PoolStatus
	kgstest.Await(t, "a status that equals the table", func() (equal bool) {
		var err error
		s, err = p.Status(t.Context())
		// If a worker ends during an insert, PostgreSQL may commit the insert later, even after this call of Status.
		return err == nil && int64(k.Count(`SELECT count(*) FROM available_keys`)) == s.Keys
	})
	if s.Keys > capacity+2*chunk {
		t.Errorf("Status = %+v, want at most one chunk for each worker above the capacity of %d", s, capacity)
	}
}

// When a database returns to an older state, its available keys may already have been handed out. The
// history shows the return, or Restored records it.
func TestPostgresPoolRefusesUseAfterRollback(t *testing.T) {
	bothWays(t, func(t *testing.T, reserve bool) {
		k := newKeyPool(t)
		p := k.process("a", reserve)
		k.fill(kgstest.Codes(0, 10)...)
		for i, comeBack := range []func(){
			func() { k.Exec(`UPDATE key_pool SET history = 'another'`) },
			func() {
				if err := p.Restored(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
		} {
			comeBack()
			if b, err := p.Take(t.Context(), 1); !errors.Is(err, kgs.ErrNoEpoch) {
				t.Errorf("Take = %v, %v; want ErrNoEpoch", b, err)
			}
			if s, err := p.Status(t.Context()); !errors.Is(err, kgs.ErrNoEpoch) {
				t.Errorf("Status = %+v, %v; want ErrNoEpoch", s, err)
			}
			codes := kgstest.Codes(10*int64(i+1), 10*int64(i+2))
			k.fill(codes...)
			kgstest.WantLeft(t, kgstest.SupplyUnderTest{Supply: p}, codes)
		}
	})
}

// When a worker empties the pool, some of its keys may already have links: keys that are marked as reserved, and
// available keys that a crashed process had reserved. The worker must record all these keys as used.
func TestPostgresPoolRecordsReservedKeysAsUsedAfterRollback(t *testing.T) {
	t.Parallel()
	k := newKeyPool(t)
	p := k.process("a", true)
	k.fill(kgstest.Codes(0, 10)...)
	b, crashed := kgstest.Take(t, p, 4), kgstest.Take(t, k.process("crashed", true), 3)
	k.DeclareDead("crashed", reserveTerm)
	k.fill() // makes the keys of the crashed process available
	if err := p.Restored(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.fill()
	if n, want := k.Count(`SELECT count(*) FROM used_keys`), len(b.Codes)+len(crashed.Codes); n != want {
		t.Errorf("used_keys has %d keys, want the %d keys that were reserved", n, want)
	}
	if n := k.Count(`SELECT count(*) FROM available_keys`); n != 0 {
		t.Errorf("the pool has %d keys, want 0", n)
	}
	kgstest.Settle(t, p, b, b.Codes[:2], b.Codes[2:]) // the holder still has the batch
	kgstest.WantLeft(t, kgstest.SupplyUnderTest{Supply: p}, nil)
}

// When older files replace the files of the database, the history stays the same. A process that ran before the
// replacement remembers a higher transaction id than the database has. Then no process may take the keys of the older
// state.
func TestPostgresPoolGivesNoKeysAfterOlderDatabaseFilesReturn(t *testing.T) {
	bothWays(t, func(t *testing.T, reserve bool) {
		k := newKeyPool(t)
		k.fill(kgstest.Codes(0, 10)...)
		p, fresh := k.process("a", reserve), k.process("b", reserve)
		if _, err := p.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.transactions.Add(1_000_000) // as if the database had lost a million transactions
		if b, err := p.Take(t.Context(), 1); !errors.Is(err, kgs.ErrNoEpoch) {
			t.Errorf("Take = %v, %v; want ErrNoEpoch", b, err)
		}
		if b, err := fresh.Take(t.Context(), 1); !errors.Is(err, kgs.ErrNoEpoch) {
			t.Errorf("Take of another process = %v, %v; want ErrNoEpoch", b, err)
		}
		k.fill(kgstest.Codes(10, 20)...)
		kgstest.WantLeft(t, kgstest.SupplyUnderTest{Supply: p}, kgstest.Codes(10, 20))
	})
}

func TestSecondOpenOfPostgresPoolKeepsKeys(t *testing.T) {
	t.Parallel()
	k := newKeyPool(t)
	k.fill(kgstest.Codes(0, 10)...)
	s := k.filler(&kgstest.DrawnCodes{})
	if err := s.open(t.Context()); err != nil { // as a second worker does
		t.Fatal(err)
	}
	wantStatus(t, s.pool, kgs.PoolStatus{Keys: 10, Pushed: 10})
}

// TestPostgresFillerReportsCrowdedSpace draws the same codes twice. No code of the second Fill is new, so
// it must call Crowded.
func TestPostgresFillerReportsCrowdedSpace(t *testing.T) {
	t.Parallel()
	k := newKeyPool(t)
	codes := make([]string, 2*leastDrawn)
	for i := range codes {
		codes[i] = fmt.Sprintf("%06d", i)
	}
	crowded := 0
	for want, drawn := range [][]string{codes, codes} {
		s := k.filler(&kgstest.DrawnCodes{Codes: drawn})
		s.Crowded = func() { crowded++ }
		if _, err := s.Fill(t.Context(), int64(len(drawn))); err != nil || crowded != want {
			t.Errorf("after Fill %d the space was reported as crowded %d times (error %v), want %d", want+1, crowded, err, want)
		}
	}
}
