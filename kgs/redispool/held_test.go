package redispool

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

// newPoolWithBatches returns a pool that is open for epoch 2 and has 100 keys. Its holder still has two batches of 10
// keys from epoch 1.
func newPoolWithBatches(t *testing.T) (p *Pool, book *stubLedger, batches []*kgs.Batch) {
	t.Helper()
	return newPoolWithBatchesIn(t, testenv.Redis(t))
}

func newPoolWithBatchesIn(t *testing.T, client redis.UniversalClient) (p *Pool, book *stubLedger, batches []*kgs.Batch) {
	t.Helper()
	p, book = newTestPool(t, client, "holder")
	openEpoch(t, p, 1)
	mustPush(t, p, testRange(1, 0, 100))
	batches = []*kgs.Batch{mustTake(t, p, 10), mustTake(t, p, 10)}
	if err := p.client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	openEpoch(t, p, 2)
	mustPush(t, p, ledger.Reservation{Range: codespace.Range{Length: 6, Lo: 100, Hi: 200}, ID: 2, Epoch: 2})
	return p, book, batches
}

func sweep(t *testing.T, p *Pool, want int64) {
	t.Helper()
	if n, err := p.Sweep(t.Context()); n != want || err != nil {
		t.Errorf("Sweep = %d, %v, want %d", n, err, want)
	}
}

func wantBatches(t *testing.T, p *Pool, batches ...*kgs.Batch) {
	t.Helper()
	var want []string
	for _, b := range batches {
		want = append(want, b.Codes...)
	}
	slices.Sort(want)
	if _, got := snapshot(t, p); !slices.Equal(got, want) {
		t.Errorf("the codes %v are in batches, want %v", got, want)
	}
}

// wantUnusedCount checks how many keys the metrics count as unused keys of an earlier epoch. The metrics must count no
// key under the reason kgs.ReasonEpoch.
func wantUnusedCount(t *testing.T, registry *prometheus.Registry, want float64) {
	t.Helper()
	if got := kgstest.Counter(t, registry, "kgs_keys_abandoned_total", kgs.ReasonEarlierEpoch); got != want {
		t.Errorf("%v keys count as unused keys of an earlier epoch, want %v", got, want)
	}
	if got := kgstest.Counter(t, registry, "kgs_keys_abandoned_total", kgs.ReasonEpoch); got != 0 {
		t.Errorf("%v keys count as keys of a pool that lost data, want none", got)
	}
}

// A server still uses its batches after the pool has begun a new epoch, so an audit must find the keys of these batches.
func TestRedisPoolKeepsBatchesOfEarlierEpoch(t *testing.T) {
	t.Parallel()
	p, book, batches := newPoolWithBatches(t)
	registry := prometheus.NewRegistry()
	p.cfg.Metrics = kgs.NewMetrics(registry)
	for range 2 {
		sweep(t, p, 0)
		wantBatches(t, p, batches...)
	}
	now := mustTake(t, p, 10)
	wantBatches(t, p, batches[0], batches[1], now)

	// Three keys of the first batch were not used, and one is lost. The keys of an earlier epoch do not return to the list.
	if err := p.Settle(t.Context(), batches[0], batches[0].Codes[:3], batches[0].Codes[3:4]); err != nil {
		t.Fatal(err)
	}
	sweep(t, p, 0)
	wantBatches(t, p, batches[1], now)
	wantUnusedCount(t, registry, 3)
	if n := codespace.Count(book.ranges[kgs.ReasonLostReply]); n != 1 {
		t.Errorf("the ledger has %d lost keys, want 1", n)
	}
	if err := p.Settle(t.Context(), now, now.Codes, nil); err != nil {
		t.Fatal(err)
	}
	list, _ := snapshot(t, p)
	if n, err := p.cfg.Space.Ranges(list); err != nil || len(n) != 1 || n[0] != (codespace.Range{Length: 6, Lo: 100, Hi: 200}) {
		t.Errorf("the list has the numbers %v (error %v), want the numbers of its epoch", n, err)
	}
	sweep(t, p, 0)
	wantBatches(t, p, batches[1])
}

// If a killed server had batches of an earlier epoch, Sweep abandons their keys once.
func TestSweepAbandonsBatchesOfKilledHolderFromEarlierEpoch(t *testing.T) {
	t.Parallel()
	p, book, batches := newPoolWithBatches(t)
	registry := prometheus.NewRegistry()
	p.cfg.Metrics = kgs.NewMetrics(registry)
	sweep(t, p, 0)
	book.alive = []string{"worker"}
	other := New(p.client, Config{Holder: "worker", Space: p.cfg.Space, Ledger: book})
	sweep(t, other, 20)
	sweep(t, p, 0) // the holder was frozen and not dead: its own Sweep must not record the batches again
	wantBatches(t, p)
	if err := errors.Join(p.Settle(t.Context(), batches[0], batches[0].Codes, nil), p.Settle(t.Context(), batches[1], nil, nil)); err != nil {
		t.Fatal(err)
	}
	sweep(t, other, 0)
	if n := codespace.Count(book.ranges[kgs.ReasonCrash]); n != 20 {
		t.Errorf("the ledger has %d keys of dead holders, want 20", n)
	}
	wantUnusedCount(t, registry, 0) // all 20 keys count as keys of a dead holder
}

// A batch that is settled before the holder notices the new epoch leaves no record.
func TestSettledBatchOfEarlierEpochIsNotRecorded(t *testing.T) {
	t.Parallel()
	p, _, batches := newPoolWithBatches(t)
	registry := prometheus.NewRegistry()
	p.cfg.Metrics = kgs.NewMetrics(registry)
	for range 2 {
		if err := p.Settle(t.Context(), batches[0], batches[0].Codes[:5], nil); err != nil {
			t.Fatal(err)
		}
	}
	wantUnusedCount(t, registry, 5)
	sweep(t, p, 0)
	wantBatches(t, p, batches[1])
	if list, _ := snapshot(t, p); len(list) != 100 {
		t.Errorf("the list has %d keys, want the 100 keys of its epoch", len(list))
	}
}

// A Redis at its memory limit cannot record a batch again, but Sweep still writes off the batches of dead holders.
func TestSweepAtMemoryLimitAbandonsBatchesOfDeadHolders(t *testing.T) {
	t.Parallel()
	p, book, _ := newPoolWithBatchesIn(t, openClient(t, testenv.StartRedis(t).Addr))
	dead := New(p.client, Config{Holder: "dead", Space: p.cfg.Space, Ledger: book})
	mustTake(t, dead, 10)
	setMemory := func(limit string) {
		if err := p.client.ConfigSet(t.Context(), "maxmemory", limit).Err(); err != nil {
			t.Fatal(err)
		}
	}
	setMemory("1")
	if n, err := p.Sweep(t.Context()); n != 10 || !redis.HasErrorPrefix(err, "OOM") {
		t.Errorf("Sweep = %d, %v, want 10 keys and the error of Redis", n, err)
	}
	setMemory("0")
	sweep(t, p, 0)
}

// The holder has a batch of epoch 7. PostgreSQL and Redis both return to older states, so the next epoch is epoch 1.
func TestRedisPoolKeepsBatchesWhenNewEpochHasLowerNumber(t *testing.T) {
	t.Parallel()
	p, _ := newTestPool(t, testenv.Redis(t), "holder")
	openEpoch(t, p, 7)
	mustPush(t, p, ledger.Reservation{Range: codespace.Range{Length: 6, Lo: 200, Hi: 300}, ID: 3, Epoch: 7})
	earlier := mustTake(t, p, 10)
	if err := p.client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	openEpoch(t, p, 1)
	mustPush(t, p, testRange(1, 0, 100))
	now := mustTake(t, p, 10)
	sweep(t, p, 0)
	wantBatches(t, p, earlier, now)
	if err := p.Settle(t.Context(), now, now.Codes[:4], nil); err != nil {
		t.Fatal(err)
	}
	wantBatches(t, p, earlier)
	if err := p.Settle(t.Context(), earlier, earlier.Codes[:4], nil); err != nil {
		t.Fatal(err)
	}
	wantBatches(t, p)
	if list, _ := snapshot(t, p); len(list) != 94 {
		t.Errorf("the list has %d keys, want 90 that were never taken and 4 that were returned", len(list))
	}
}

// The script that records a batch again may arrive after its call failed and after the batch was settled.
func TestLateRecordOfSettledBatchIsDeleted(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	p, _, batches := newPoolWithBatchesIn(t, openClient(t, server.Addr))
	patient := p.client
	p.client = openProgramClient(t, server.URL)
	server.Pause()
	if err := p.recordOne(t.Context(), p.held.find(batches[0].ID), 2); err == nil {
		t.Fatal("a Redis that does not answer recorded a batch")
	}
	server.Resume()
	p.client = patient
	if err := p.Settle(t.Context(), batches[0], nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.run(t.Context(), p.scripts.record, 2, p.cfg.Holder, "1@1", strings.Join(batches[0].Codes, " ")).Err(); err != nil {
		t.Fatal(err)
	}
	wantBatches(t, p, batches[0])
	sweep(t, p, 0)
	wantBatches(t, p, batches[1])
}
