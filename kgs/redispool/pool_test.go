package redispool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

// stubLedger is a Ledger in memory.
type stubLedger struct {
	mu     sync.Mutex
	err    error // the error that Abandon returns
	ranges map[string][]codespace.Range
	alive  []string
}

func (b *stubLedger) Holders(context.Context) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.alive, nil
}

func (b *stubLedger) Abandon(_ context.Context, ranges []codespace.Range, reason string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	if b.ranges == nil {
		b.ranges = make(map[string][]codespace.Range)
	}
	b.ranges[reason] = append(b.ranges[reason], ranges...)
	return nil
}

func newTestPool(t *testing.T, client redis.UniversalClient, holder string) (*Pool, *stubLedger) {
	t.Helper()
	book := &stubLedger{alive: []string{"holder", "worker"}}
	return New(client, Config{Holder: holder, Space: codespace.Plain(), Ledger: book}), book
}

// newOpenPool returns a pool in a Redis database that only this test uses. The pool is open for
// epoch 1.
func newOpenPool(t *testing.T) (*Pool, *stubLedger) {
	t.Helper()
	p, book := newTestPool(t, testenv.Redis(t), "holder")
	openEpoch(t, p, 1)
	return p, book
}

func openEpoch(t *testing.T, p *Pool, epoch int64) {
	t.Helper()
	status, err := p.Status(t.Context())
	if err != nil && !errors.Is(err, kgs.ErrNoEpoch) {
		t.Fatalf("Status: %v", err)
	}
	if err := p.Open(t.Context(), epoch, status.RunID); err != nil {
		t.Fatalf("Open: %v", err)
	}
}

// testRange returns a range of epoch 1 with the n numbers from lo on.
func testRange(id, lo, n int64) ledger.Reservation {
	return ledger.Reservation{Range: codespace.Range{Length: 6, Lo: lo, Hi: lo + n}, ID: id, Epoch: 1}
}

func push(ctx context.Context, p *Pool, r ledger.Reservation, from, to int64) (int64, error) {
	numbers := codespace.Range{Length: r.Length, Lo: from, Hi: to}
	return p.Push(ctx, r, from, to, p.cfg.Space.AppendCodes(nil, numbers))
}

func mustPush(t *testing.T, p *Pool, r ledger.Reservation) {
	t.Helper()
	if mark, err := push(t.Context(), p, r, r.Lo, r.Hi); mark != r.Hi || err != nil {
		t.Fatalf("Push of %+v = %d, %v", r, mark, err)
	}
}

func mustTake(t *testing.T, p *Pool, n int) *kgs.Batch {
	t.Helper()
	b, err := p.Take(t.Context(), n)
	if err != nil {
		t.Fatalf("Take: %v", err)
	}
	return b
}

// snapshot returns the codes in the list and the codes in batches, each sorted.
func snapshot(t *testing.T, p *Pool) (list, batches []string) {
	t.Helper()
	for f, err := range p.Snapshot(t.Context()) {
		if err != nil {
			t.Fatalf("Snapshot: %v", err)
		}
		if f.InBatch {
			batches = append(batches, f.Code)
		} else {
			list = append(list, f.Code)
		}
	}
	slices.Sort(list)
	slices.Sort(batches)
	return list, batches
}

func TestRedisPoolFollowsSupplyContract(t *testing.T) {
	kgstest.TestSupply(t, func(t *testing.T, keys int) kgstest.SupplyUnderTest {
		p, _ := newOpenPool(t)
		mustPush(t, p, testRange(1, 0, int64(keys)))
		return kgstest.SupplyUnderTest{Supply: p}
	})
}

func TestRedisPoolTakesKeysInPushedOrder(t *testing.T) {
	t.Parallel()
	p, _ := newOpenPool(t)
	if _, err := p.Take(t.Context(), 10); !errors.Is(err, kgs.ErrEmpty) {
		t.Fatalf("Take of an empty pool: %v, want ErrEmpty", err)
	}
	mustPush(t, p, testRange(1, 0, 100_010))
	a, b := mustTake(t, p, 100_000), mustTake(t, p, 100_000)
	if a.ID == b.ID || a.Source != kgs.SourcePool || len(a.Codes) != 100_000 {
		t.Errorf("the batches have the ids %d and %d; the first has %d keys and the source %q; want different ids, 100,000 keys and the source pool",
			a.ID, b.ID, len(a.Codes), a.Source)
	}
	if got := slices.Concat(a.Codes, b.Codes); !slices.Equal(got, kgstest.Codes(0, 100_010)) {
		t.Error("the batches do not have the pushed codes in their order")
	}
	if _, err := p.Take(t.Context(), 10); !errors.Is(err, kgs.ErrEmpty) {
		t.Errorf("Take of an emptied pool: %v, want ErrEmpty", err)
	}
}

func TestRedisPoolSettleReturnsUnusedKeysOnce(t *testing.T) {
	t.Parallel()
	p, book := newOpenPool(t)
	mustPush(t, p, testRange(1, 0, 30))
	b := mustTake(t, p, 10)
	for range 2 { // the second script must change nothing
		p.held.add(b, 1) // as if the reply to the first script was lost
		if err := p.Settle(t.Context(), b, b.Codes[4:], b.Codes[:2]); err != nil {
			t.Fatalf("Settle: %v", err)
		}
	}
	list, batches := snapshot(t, p)
	if diff := cmp.Diff(kgstest.Codes(4, 30), list); diff != "" {
		t.Errorf("the list after four of ten keys were used (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(kgstest.Codes(0, 2), batches); diff != "" {
		t.Errorf("the codes on record after Settle (-want +got):\n%s", diff)
	}
	if n, err := p.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("Sweep = %d, %v, want 0 because no holder is dead", n, err)
	}
	want := map[string][]codespace.Range{kgs.ReasonLostReply: {{Length: 6, Lo: 0, Hi: 2}}}
	if diff := cmp.Diff(want, book.ranges); diff != "" {
		t.Errorf("the ledger (-want +got):\n%s", diff)
	}
	if _, batches := snapshot(t, p); len(batches) != 0 {
		t.Errorf("after Sweep, the codes %v are on record, want none", batches)
	}
}

func TestRedisPoolReleaseReturnsOnlyBatchWithLostReply(t *testing.T) {
	t.Parallel()
	p, _ := newOpenPool(t)
	mustPush(t, p, testRange(1, 0, 30))
	unsettled := mustTake(t, p, 10)
	mustTake(t, p, 10)
	p.next-- // simulates a lost reply to the second Take
	if err := p.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, batches := snapshot(t, p)
	if !slices.Equal(list, kgstest.Codes(10, 30)) || !slices.Equal(batches, unsettled.Codes) {
		t.Errorf("after Release, the list has %v and the batches have %v, want the batch of the lost reply in the list",
			list, batches)
	}
	other, book := newTestPool(t, p.client, "other")
	book.alive = []string{"other"}
	if n, err := other.Sweep(t.Context()); n != 10 || err != nil {
		t.Errorf("Sweep = %d, %v, want 10", n, err)
	}
	if diff := cmp.Diff(map[string][]codespace.Range{kgs.ReasonCrash: {{Length: 6, Lo: 0, Hi: 10}}}, book.ranges); diff != "" {
		t.Errorf("the ledger (-want +got):\n%s", diff)
	}
}

func TestRedisPoolSnapshotIncludesKeysThatMove(t *testing.T) {
	t.Parallel()
	p, _ := newOpenPool(t)
	const n = 5*readChunk + 1
	mustPush(t, p, testRange(1, 0, n))
	inPool := make(map[string]bool, n)
	for _, code := range kgstest.Codes(0, n) {
		inPool[code] = true
	}
	seen := make(map[string]bool, n)
	i := 0
	for f, err := range p.Snapshot(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		seen[f.Code] = true
		if i++; i%readChunk == 0 && i <= 3*readChunk {
			// One batch is used in part and settled. Another batch stays on record.
			b := mustTake(t, p, 3000)
			mustTake(t, p, 3000)
			for _, code := range b.Codes[:1000] {
				delete(inPool, code)
			}
			if err := p.Settle(t.Context(), b, b.Codes[1000:], nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for code := range inPool {
		if !seen[code] {
			t.Fatalf("Snapshot did not yield %s, which was always in the pool; it yielded %d of %d codes", code, len(seen), n)
		}
	}
}

func TestConcurrentRedisPoolsTakeEachPushedKeyOnce(t *testing.T) {
	t.Parallel()
	first, _ := newOpenPool(t)
	const pools, ranges = 4, 10
	taken := make([][]string, pools)
	var wg sync.WaitGroup
	for i := range pools {
		p, _ := newTestPool(t, first.client, fmt.Sprintf("holder-%d", i))
		wg.Go(func() {
			for id := range int64(ranges) { // all goroutines push the same ranges and take keys
				r := testRange(id, id*100, 100)
				for from := r.Lo; from < r.Hi; {
					mark, err := push(t.Context(), p, r, from, from+10)
					if err != nil {
						t.Errorf("Push: %v", err)
						return
					}
					from = mark
				}
				b, err := p.Take(t.Context(), 20)
				if err != nil {
					t.Errorf("Take: %v", err)
					return
				}
				taken[i] = append(taken[i], b.Codes...)
			}
		})
	}
	wg.Wait()
	list, _ := snapshot(t, first)
	all := slices.Sorted(slices.Values(append(slices.Concat(taken...), list...)))
	if diff := cmp.Diff(kgstest.Codes(0, ranges*100), all); diff != "" {
		t.Errorf("codes taken and codes left (-want +got):\n%s", diff)
	}
}
