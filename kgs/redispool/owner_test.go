package redispool

import (
	"errors"
	"strings"
	"testing"
	"time"

	"keypool/kgs"
)

// TestWorkerRefusesRedisPoolOwnedByOtherDatabase lets a database and its copy use one Redis. While the original
// database has a worker, the copy must neither take keys nor begin an epoch, even after a FLUSHDB. A minute after the
// last confirmation of the owner, the copy may do both.
func TestWorkerRefusesRedisPoolOwnedByOtherDatabase(t *testing.T) {
	t.Parallel()
	d, other := newFixture(t), newFixture(t)
	other.client = d.client
	first, copied := d.owned("a", "1/1"), other.owned("b", "2/1")
	d.wantSize(first, 0)
	d.fill(first, 100, 100)

	wantRefused := func() {
		t.Helper()
		before, err := other.Epoch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := copied.Prepare(t.Context()); !errors.Is(err, ErrForeign) {
			t.Errorf("Prepare = %v, want ErrForeign", err)
		}
		if _, err := copied.cfg.Pool.Take(t.Context(), 1); !errors.Is(err, kgs.ErrNoEpoch) {
			t.Errorf("Take = %v, want ErrNoEpoch", err)
		}
		if after, err := other.Epoch(t.Context()); err != nil || after != before {
			t.Errorf("the ledger of the copy is in epoch %d (error %v), want %d", after.Number, err, before.Number)
		}
	}
	wantRefused()
	if status, _ := copied.cfg.Pool.Status(t.Context()); !strings.Contains(status.Unsafe(), "another database") { // Status fails with ErrForeign
		t.Errorf("the alarm of the copy is %q, want an alarm about another database", status.Unsafe())
	}
	if err := d.client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	wantRefused()
	d.wantSize(first, 0)
	d.wantEpoch(first, 2)
	wantRefused()

	if err := d.client.HSet(t.Context(), first.cfg.Pool.keys[0], "claimed", 1).Err(); err != nil {
		t.Fatal(err)
	}
	copied.cfg.Pool.cfg.Alarm.foreignUntil = time.Time{} // a minute has passed
	other.wantSize(copied, 0)
	if err := first.Prepare(t.Context()); !errors.Is(err, ErrForeign) {
		t.Errorf("Prepare of the former owner = %v, want ErrForeign", err)
	}
}

// owned returns a filler whose ledger is in the given database.
func (d fixture) owned(holder, database string) *Filler {
	s := d.filler(holder)
	cfg := s.cfg.Pool.cfg
	cfg.Database, cfg.Alarm = database, new(Alarm)
	s.cfg.Pool = New(d.client, cfg)
	return s
}

// TestWorkerBecomesOwnerOfPoolWithoutOwner lets a worker use a pool that an older release opened without an
// owner. The database of the worker must become the owner.
func TestWorkerBecomesOwnerOfPoolWithoutOwner(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	s := d.owned("a", "1/1")
	d.wantSize(s, 0)
	d.fill(s, 100, 100)
	state := s.cfg.Pool.keys[0]
	if err := d.client.HDel(t.Context(), state, "owner", "claimed").Err(); err != nil {
		t.Fatal(err)
	}
	s.claimed = time.Time{} // as in another process, which has not confirmed the owner yet
	d.wantSize(s, 100)
	if owner, err := d.client.HGet(t.Context(), state, "owner").Result(); owner != "1/1" || err != nil {
		t.Errorf("the owner of the pool is %q, %v, want 1/1", owner, err)
	}
}

// TestWorkersStopReplacingEpochsIfLedgerHasTwoPools lets two workers of one ledger use two Redis databases, so that
// each worker replaces the epoch of the other worker.
func TestWorkersStopReplacingEpochsIfLedgerHasTwoPools(t *testing.T) {
	t.Parallel()
	d, other := newFixture(t), newFixture(t)
	one, two := d.owned("a", "1/1"), d.owned("b", "1/1")
	two.cfg.Pool = New(other.client, two.cfg.Pool.cfg)
	var refused error
	for range 10 {
		for _, s := range []*Filler{one, two} {
			if err := s.Prepare(t.Context()); err != nil {
				refused = err
			}
		}
	}
	epoch, err := d.Epoch(t.Context())
	if err != nil || epoch.Number != maxEpochs || !errors.Is(refused, errSeveralPools) {
		t.Errorf("the ledger is in epoch %d (error %v), and a worker got the error %v, want epoch %d and errSeveralPools", epoch.Number, err, refused, maxEpochs)
	}
	status, err := one.cfg.Pool.Status(t.Context())
	if err != nil || !strings.Contains(status.Unsafe(), "REDIS_URL") {
		t.Errorf("Status = %+v, %v, want an alarm that names REDIS_URL", status, err)
	}
	d.Exec(t, `UPDATE kgs_epochs SET opened_at = opened_at - 601000000`) // ten minutes pass
	if err := one.Prepare(t.Context()); err != nil {
		t.Errorf("Prepare after ten minutes: %v", err)
	}
}
