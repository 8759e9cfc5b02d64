package redispool

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

func TestFillerBeginsNewEpochIfPoolIsInOlderEpoch(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	s := d.open("a")
	d.fill(s, 100, 100)
	status, err := s.cfg.Pool.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A worker opens an epoch in the ledger, and crashes before it opens the pool.
	if _, _, err := d.OpenEpoch(t.Context(), 1, status.RunID); err != nil {
		t.Fatal(err)
	}
	d.wantSize(s, 0)
	d.wantEpoch(s, 3)
	d.Exec(t, `UPDATE kgs_epochs SET opened_at = opened_at - 90000000000`) // more than a day passes
	if _, _, err := d.OpenEpoch(t.Context(), 3, "another run"); err != nil {
		t.Fatal(err)
	}
	d.wantSize(s, 0)
	d.wantEpoch(s, 5)
	d.fill(s, 10, 10)
}

// TestFillerBeginsNewEpochAfterRedisIsFlushed flushes the pool. A flush does not change the replication id of Redis,
// so the filler must detect the loss in another way.
func TestFillerBeginsNewEpochAfterRedisIsFlushed(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	s := d.open("a")
	s.begin(t, 100, 50)
	if err := d.client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Fill(t.Context(), 10); n != 0 || !errors.Is(err, kgs.ErrNoEpoch) {
		t.Errorf("Fill = %d, %v, want ErrNoEpoch", n, err)
	}
	d.wantSize(s, 0)
	d.wantEpoch(s, 2)
	d.fill(s, 10, 10)
	if got, err := d.space.Ranges(kgstest.Drain(t, s.cfg.Pool, 100)); err != nil || !slices.Equal(got, []codespace.Range{{Length: 6, Lo: 100, Hi: 110}}) {
		t.Errorf("the new pool held the numbers %v (error %v), want only new numbers", got, err)
	}
}

// TestFillerSkipsAheadWhenLedgerIsOlderThanPool sets the ledger back to an older state. The ledger then has no
// record of an epoch of the pool, or of ranges in the pool.
func TestFillerSkipsAheadWhenLedgerIsOlderThanPool(t *testing.T) {
	t.Parallel()
	const margin = 10_000_000 // a skip-ahead leaves out from margin to 2*margin numbers above the high-water mark
	for name, restore := range map[string]string{
		"the ledger lacks ranges":              `UPDATE kgs_ledger SET last_range = 1`,
		"the ledger lacks an epoch":            `UPDATE kgs_ledger SET last_range = 3, epoch = 0`,
		"the ledger lacks ranges and an epoch": `UPDATE kgs_ledger SET last_range = 0, epoch = 0`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newFixture(t)
			s := d.open("a")
			for range 3 {
				d.fill(s, 100, 100)
			}
			d.Exec(t, restore)
			d.Exec(t, `UPDATE kgs_spaces SET next = 100 WHERE length = 6`)
			d.Exec(t, `DELETE FROM kgs_epochs WHERE epoch > (SELECT epoch FROM kgs_ledger)`)
			// The test continues as a new process, which has not yet read the high-water mark.
			d.LedgerUnderTest = d.Reopen()
			s = d.filler("b")
			if err := s.Prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			// Prepare has reported the high-water mark of the pool to the ledger. Therefore the next
			// change of the ledger begins a new epoch.
			if _, err := s.Fill(t.Context(), 10); err != nil && !errors.Is(err, kgs.ErrNoEpoch) {
				t.Fatal(err)
			}
			if err := s.Prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.fill(s, 10, 10)
			kgstest.Drain(t, s.cfg.Pool, 100) // remove the keys that the first Fill may have pushed
			d.fill(s, 10, 10)
			d.wantSize(s, 10)
			got, err := d.space.Ranges(kgstest.Drain(t, s.cfg.Pool, 100))
			if err != nil || len(got) != 1 || got[0].Lo < 300+margin || got[0].Len() != 10 {
				t.Errorf("the pool held the numbers %v (error %v), want only numbers far above 300", got, err)
			}
			all, err := d.Snapshot(t.Context())
			if err != nil || len(all.Rows) != 1 || all.Rows[0].State != ledger.StateAbandoned || all.Rows[0].Reason != kgs.ReasonRollback ||
				all.Rows[0].Lo != 100 || all.Rows[0].Hi < 300+margin || all.Rows[0].Hi >= 300+2*margin {
				t.Errorf("the ledger has the ranges %+v (error %v), want one range that the rollback abandoned", all.Rows, err)
			}
		})
	}
}

// TestFillerSkipsAheadWhenFloorOfPoolIsAboveIDsOfLedger sets the ledger back to a state without a batch that it issued. Only
// the floor of the pool shows the id of this batch.
func TestFillerSkipsAheadWhenFloorOfPoolIsAboveIDsOfLedger(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	s := d.open("a")
	s.begin(t, 100, 50)
	batch, err := d.Reserve(t.Context(), "server", ledger.StateBatch, 6, 10)
	if err != nil {
		t.Fatal(err)
	}
	d.fill(s, 50, 50)
	d.Exec(t, `UPDATE kgs_ledger SET last_range = 1`)
	d.Exec(t, `UPDATE kgs_spaces SET next = 100 WHERE length = 6`)
	d.Exec(t, `DELETE FROM kgs_ranges`)
	d.LedgerUnderTest = d.Reopen() // the test continues as a new process, which has not yet read the high-water mark
	s = d.filler("b")
	for range 3 { // the first round begins a new epoch
		if err := s.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Fill(t.Context(), 10); err != nil && !errors.Is(err, kgs.ErrNoEpoch) {
			t.Fatal(err)
		}
	}
	got, err := d.space.Ranges(kgstest.Drain(t, s.cfg.Pool, 100))
	if err != nil || len(got) != 1 || got[0].Lo < batch.Hi {
		t.Errorf("the pool held the numbers %v (error %v), want only numbers above the batch %v", got, err, batch.Range)
	}
}

// TestFillerPassesHighWaterMarkToRestoredLedger restores a ledger that lacks the numbers in the pool, and records the
// restore. The first change of the ledger skips ahead and begins an epoch before a filler has read the pool. The numbers in the
// pool are above the skipped numbers, and the filler must not push them again.
func TestFillerPassesHighWaterMarkToRestoredLedger(t *testing.T) {
	t.Parallel()
	const issued = 100_000_000 // more than a skip-ahead leaves out
	d := newFixture(t)
	d.Exec(t, `UPDATE kgs_spaces SET next = $1 WHERE length = 6`, issued)
	s := d.open("a")
	d.fill(s, 100, 100)
	d.Exec(t, `UPDATE kgs_spaces SET next = 100 WHERE length = 6`)
	d.Exec(t, `DELETE FROM kgs_ranges`)
	d.LedgerUnderTest = d.Reopen() // the test continues as a new process, which has not yet read the high-water mark
	if err := d.Restored(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = d.filler("b")
	for range 3 { // the first rounds begin a new epoch
		if err := s.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Fill(t.Context(), 10); err != nil && !errors.Is(err, kgs.ErrNoEpoch) {
			t.Fatal(err)
		}
		got, err := d.space.Ranges(kgstest.Drain(t, s.cfg.Pool, 100))
		if err != nil || len(got) > 0 && got[0].Lo < issued+100 {
			t.Errorf("the filler pushed the numbers %v (error %v), want only numbers from %d on", got, err, issued+100)
		}
	}
}

// TestLedgerRepeatsNoNumberWhileWorkerWaitsForEpoch sets the ledger back after two epochs within a day. The worker must
// wait before it may begin another epoch; see mayReplace. The ledger must not reserve a number again during this time.
func TestLedgerRepeatsNoNumberWhileWorkerWaitsForEpoch(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	s := d.open("a")
	if err := d.client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	d.wantSize(s, 0)
	d.fill(s, 300, 300)
	// The pool is in epoch 3, of which the restored ledger has no record.
	if err := d.client.HSet(t.Context(), s.cfg.Pool.keys[0], "epoch", 3).Err(); err != nil {
		t.Fatal(err)
	}
	d.Exec(t, `UPDATE kgs_spaces SET next = 100 WHERE length = 6`)
	d.LedgerUnderTest = d.Reopen()
	if err := d.filler("b").Prepare(t.Context()); !errors.Is(err, errSeveralPools) {
		t.Fatalf("Prepare = %v, want errSeveralPools", err)
	}
	if r, err := d.Reserve(t.Context(), "c", ledger.StateBatch, 6, 10); err != nil || r.Lo < 300 {
		t.Errorf("the ledger reserved %d to %d again, error %v; want numbers from 300 on", r.Lo, r.Hi, err)
	}
}

// TestFillerAcceptsEpochThatAnotherWorkerBegan lets a filler read the epoch of the ledger. Before the
// filler reads the pool, another worker begins an epoch and opens the pool for it. The filler must
// not mistake the newer epoch of the pool for a rollback of the ledger.
func TestFillerAcceptsEpochThatAnotherWorkerBegan(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	s, other := d.open("a"), d.open("b")
	if err := d.client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	epoch, err := d.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lost, err := s.cfg.Pool.Status(t.Context())
	if !errors.Is(err, kgs.ErrNoEpoch) {
		t.Fatal(err)
	}
	d.wantSize(other, 0)
	d.fill(other, 10, 10)
	if reopened, err := s.reopenIfBehind(t.Context(), Status{PoolStatus: kgs.PoolStatus{Epoch: epoch.Number + 1}}); reopened || err != nil {
		t.Errorf("reopenIfBehind: %v, %v; want false, because the ledger was not rolled back", reopened, err)
	}
	if err := s.openEpoch(t.Context(), epoch.Number, lost); !errors.Is(err, kgs.ErrNoEpoch) {
		t.Errorf("a late openEpoch: %v, want ErrNoEpoch", err)
	}
	d.wantSize(s, 10)
	d.wantEpoch(s, 2)
}

// TestFillerOpensPoolOncePerEpoch stalls a worker after it has begun an epoch in the ledger and
// before it opens the pool. Another worker begins the next epoch and fills the pool. Then the pool
// is flushed, and the stalled worker opens the pool for its own, older epoch. The other worker must
// not open the pool for the newer epoch a second time: the marks of the newer epoch are lost, so
// the worker would push its current range twice.
func TestFillerOpensPoolOncePerEpoch(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	stalled, other := d.open("stalled"), d.open("other")
	seen, err := stalled.cfg.Pool.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late, _, err := d.OpenEpoch(t.Context(), 1, seen.RunID)
	if err != nil {
		t.Fatal(err)
	}
	d.wantSize(other, 0)
	d.wantEpoch(other, 3)
	other.begin(t, 100, 50)
	handedOut := kgstest.Drain(t, other.cfg.Pool, 100)
	if err := d.client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := stalled.cfg.Pool.Open(t.Context(), late, seen.RunID); err != nil {
		t.Fatal(err)
	}
	if n, err := other.Fill(t.Context(), 100); n != 0 || !errors.Is(err, kgs.ErrNoEpoch) {
		t.Errorf("Fill of a pool of an older epoch = %d, %v, want ErrNoEpoch", n, err)
	}
	d.wantSize(other, 0)
	d.wantEpoch(other, 4)
	d.fill(other, 100, 100)
	for _, code := range kgstest.Drain(t, other.cfg.Pool, 100) {
		if slices.Contains(handedOut, code) {
			t.Errorf("the code %s is in the pool a second time", code)
		}
	}
}

// TestNextFillerCountsAbandonedKeys replaces a filler after the pool lost its state, as the dead man's switch does in an
// outage. The new filler must count the keys that the first filler saw.
func TestNextFillerCountsAbandonedKeys(t *testing.T) {
	t.Parallel()
	d, registry := newFixture(t), prometheus.NewRegistry()
	s := d.open("a")
	d.fill(s, 100, 100)
	d.wantSize(s, 100)
	if err := d.client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	next := s.cfg
	next.Metrics = kgs.NewMetrics(registry)
	d.wantSize(NewFiller(next), 0)
	if n := kgstest.Counter(t, registry, "kgs_keys_abandoned_total", kgs.ReasonEpoch); n != 100 {
		t.Errorf("the second filler counted %v abandoned keys, want 100", n)
	}
}

// TestFillerCountsAbandonedKeysOnce begins an epoch in the ledger, but no worker opens the pool for this epoch, as if
// Redis had failed. The next attempt abandons the keys of the pool and must count them once.
func TestFillerCountsAbandonedKeysOnce(t *testing.T) {
	t.Parallel()
	d, registry := newFixture(t), prometheus.NewRegistry()
	s := d.open("a")
	s.cfg.Metrics = kgs.NewMetrics(registry)
	d.fill(s, 100, 100)
	d.wantSize(s, 100)
	if _, _, err := d.OpenEpoch(t.Context(), 1, "another run"); err != nil {
		t.Fatal(err)
	}
	d.wantSize(s, 0)
	d.wantSize(s, 0)
	d.wantEpoch(s, 3)
	if n := kgstest.Counter(t, registry, "kgs_keys_abandoned_total", kgs.ReasonEpoch); n != 100 {
		t.Errorf("the filler counted %v abandoned keys, want 100", n)
	}
}

func TestConcurrentFillersOpenOneEpoch(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	first := d.open("first")
	d.fill(first, 100, 100)
	epoch, err := d.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	metrics := kgs.NewMetrics(registry)
	fillers := make([]*Filler, 16)
	for i := range fillers {
		fillers[i] = d.filler(string(rune('a' + i)))
		fillers[i].cfg.Metrics = metrics
		d.wantSize(fillers[i], 100)
	}
	if err := d.client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	seen, err := first.cfg.Pool.Status(t.Context())
	if !errors.Is(err, kgs.ErrNoEpoch) {
		t.Fatal(err)
	}
	// All workers have read the same epoch of the ledger and the status of a pool that lost its state.
	kgstest.InParallel(t, func(i int) (struct{}, error) {
		err := fillers[i].openEpoch(t.Context(), epoch.Number, seen)
		if errors.Is(err, kgs.ErrNoEpoch) {
			err = nil // another worker was faster
		}
		return struct{}{}, err
	})
	if n := kgstest.Counter(t, registry, "kgs_keys_abandoned_total", kgs.ReasonEpoch); n != 100 {
		t.Errorf("16 workers together counted %v keys as lost with the epoch, want 100", n)
	}
	d.wantSize(first, 0)
	d.wantEpoch(first, 2)
}

// TestLedgerContinuesFromGreatNumberInRedis writes a great number to Redis. The number is at most maxCount, so it is a
// valid value. The numbers that the ledger assigns afterwards must be valid values too. Otherwise every new epoch would
// begin with a pool that counts as altered.
func TestLedgerContinuesFromGreatNumberInRedis(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"epoch", "range", "floor"} {
		for _, number := range []int64{maxCount / 2, maxCount/2 + 1, maxCount} {
			t.Run(fmt.Sprint(field, " ", number), func(t *testing.T) {
				t.Parallel()
				d := newFixture(t)
				s := d.open("a")
				d.fill(s, 100, 100)
				if err := d.client.HSet(t.Context(), s.cfg.Pool.keys[0], field, number).Err(); err != nil {
					t.Fatal(err)
				}
				for range 3 { // the first rounds begin a new epoch
					err := s.Prepare(t.Context())
					if err == nil {
						_, err = s.Fill(t.Context(), 10)
					}
					if err != nil && !errors.Is(err, kgs.ErrNoEpoch) {
						t.Fatal(err)
					}
				}
				if status, err := s.cfg.Pool.Status(t.Context()); err != nil || status.Keys < 10 {
					t.Errorf("Status = %+v, %v, want a pool with keys", status, err)
				}
			})
		}
	}
}
