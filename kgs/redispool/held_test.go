package redispool

import (
	"errors"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

// newHeldBatches returns a pool with two batches of 10 keys that were taken in epoch 1, and a new epoch 2 with 100 other keys.
func newHeldBatches(t *testing.T) (p *Pool, book *stubLedger, batches []*kgs.Batch) {
	t.Helper()
	return newHeldBatchesIn(t, testenv.Redis(t))
}

func newHeldBatchesIn(t *testing.T, client redis.UniversalClient) (p *Pool, book *stubLedger, batches []*kgs.Batch) {
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

// A server uses its batches after the pool began a new epoch, so an audit must find them.
func TestBatchesOfAnEarlierEpochStayOnRecord(t *testing.T) {
	t.Parallel()
	p, book, held := newHeldBatches(t)
	registry := prometheus.NewRegistry()
	p.cfg.Metrics = kgs.NewMetrics(registry)
	for range 2 {
		sweep(t, p, 0)
		wantBatches(t, p, held...)
	}
	now := mustTake(t, p, 10)
	wantBatches(t, p, held[0], held[1], now)

	// Three keys of the first batch were not used, and one is lost. The keys of an earlier epoch do not return to the list.
	if err := p.Settle(t.Context(), held[0], held[0].Codes[:3], held[0].Codes[3:4]); err != nil {
		t.Fatal(err)
	}
	sweep(t, p, 0)
	wantBatches(t, p, held[1], now)
	if got := kgstest.Counter(t, registry, "kgs_keys_abandoned_total", kgs.ReasonEpoch); got != 3 {
		t.Errorf("%v keys count as abandoned with their epoch, want 3", got)
	}
	if n := codespace.Count(book.ranges[kgs.ReasonLostReply]); n != 1 {
		t.Errorf("the ledger has %d lost keys, want 1", n)
	}
	if err := p.Settle(t.Context(), now, now.Codes, nil); err != nil {
		t.Fatal(err)
	}
	list, _ := snapshot(t, p)
	if n, err := p.cfg.Space.Ranges(list); err != nil || len(n) != 1 || n[0] != (codespace.Range{Length: 6, Lo: 100, Hi: 200}) {
		t.Errorf("the list has the numbers %v (error %v), want those of its epoch", n, err)
	}
	sweep(t, p, 0)
	wantBatches(t, p, held[1])
}

// The keys that a killed server held from an earlier epoch are abandoned, once.
func TestBatchesOfAnEarlierEpochOfAKilledHolder(t *testing.T) {
	t.Parallel()
	p, book, held := newHeldBatches(t)
	sweep(t, p, 0)
	book.alive = []string{"worker"}
	other := New(p.client, Config{Holder: "worker", Space: p.cfg.Space, Ledger: book})
	sweep(t, other, 20)
	sweep(t, p, 0) // the holder was only frozen
	wantBatches(t, p)
	if err := errors.Join(p.Settle(t.Context(), held[0], held[0].Codes, nil), p.Settle(t.Context(), held[1], nil, nil)); err != nil {
		t.Fatal(err)
	}
	sweep(t, other, 0)
	if n := codespace.Count(book.ranges[kgs.ReasonCrash]); n != 20 {
		t.Errorf("the ledger has %d keys of dead holders, want 20", n)
	}
}

// A batch that is settled before the holder notices the new epoch leaves no record.
func TestSettledBatchOfAnEarlierEpochLeavesNoRecord(t *testing.T) {
	t.Parallel()
	p, _, held := newHeldBatches(t)
	if err := p.Settle(t.Context(), held[0], held[0].Codes[:5], nil); err != nil {
		t.Fatal(err)
	}
	sweep(t, p, 0)
	wantBatches(t, p, held[1])
	if list, _ := snapshot(t, p); len(list) != 100 {
		t.Errorf("the list has %d keys, want the 100 of its epoch", len(list))
	}
}

// A Redis at its memory limit cannot record a batch again. The batches of dead holders are written off all the same.
func TestSweepAtMemoryLimitAbandonsBatchesOfDeadHolders(t *testing.T) {
	t.Parallel()
	p, book, _ := newHeldBatchesIn(t, openClient(t, testenv.StartRedis(t).Addr))
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
