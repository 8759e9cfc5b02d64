package redispool

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/ledger"
)

// TestWorkerRefusesRedisPoolOwnedByOtherDatabase lets a database and its copy use one Redis. While the original
// database has a worker, the copy must neither take keys nor begin an epoch, even after a FLUSHDB. A minute after the
// last confirmation of the owner, the copy may do both. The ledger of the copy skips the numbers of the original
// at once, because the copy may be a restored backup.
func TestWorkerRefusesRedisPoolOwnedByOtherDatabase(t *testing.T) {
	t.Parallel()
	d, other := newFixture(t), newFixture(t)
	other.client = d.client
	first, copied := d.owned("a", "1/1"), other.owned("b", "2/1")
	d.wantSize(first, 0)
	d.fill(first, 100, 100)

	// The copy reserves three ranges, and the original has pushed one. So the range ids of the copy are higher, and only
	// its numbers are lower.
	for range 3 {
		if _, err := other.Reserve(t.Context(), "server", ledger.StateBatch, 6, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := copied.Prepare(t.Context()); !errors.Is(err, ErrForeign) {
		t.Errorf("Prepare = %v, want ErrForeign", err)
	}
	if c, err := other.Counters(t.Context()); err != nil || c.Reserved() <= 100 {
		t.Errorf("the ledger of the copy has the counters %+v (error %v), want more than the 100 numbers that the original issued", c, err)
	}

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
	// A Redis key of the pool has a wrong type, so that no script can read the pool before a program repairs it.
	list := first.cfg.Pool.keys[1]
	if err := errors.Join(d.client.Del(t.Context(), list).Err(), d.client.Set(t.Context(), list, "text", 0).Err()); err != nil {
		t.Fatal(err)
	}
	if err := copied.Prepare(t.Context()); !isWrongType(err) {
		t.Errorf("Prepare = %v, want an error about the type of a key", err)
	}
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

// TestWorkersStopReplacingEpochsIfLedgerHasTwoPools lets two workers of one ledger use two pools, so that each worker
// replaces the epoch of the other worker. Two databases of one Redis have the same replication id, and two Redis servers
// have different ids.
func TestWorkersStopReplacingEpochsIfLedgerHasTwoPools(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]func(*testing.T) redis.UniversalClient{
		"databases of one Redis": func(t *testing.T) redis.UniversalClient { return testenv.Redis(t) },
		"Redis servers":          func(t *testing.T) redis.UniversalClient { return openClient(t, testenv.StartRedis(t).Addr) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			workersStopReplacingEpochs(t, second(t))
		})
	}
}

func workersStopReplacingEpochs(t *testing.T, second redis.UniversalClient) {
	d := newFixture(t)
	one, two := d.owned("a", "1/1"), d.owned("b", "1/1")
	two.cfg.Pool = New(second, two.cfg.Pool.cfg)
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

// TestWorkerContinuesAfterManyFailovers simulates several failovers of Redis within a minute. Afterwards, the epoch of
// the pool is older than the epoch of the ledger. Each failover gave the pool another name, so the worker must not
// wait.
func TestWorkerContinuesAfterManyFailovers(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	s := d.owned("a", "1/1")
	d.wantSize(s, 0)
	for epoch := range int64(5) {
		if _, _, err := d.OpenEpoch(t.Context(), epoch+1, fmt.Sprint("failover ", epoch)); err != nil {
			t.Fatal(err)
		}
	}
	d.wantSize(s, 0)
	d.wantEpoch(s, 7)
}
