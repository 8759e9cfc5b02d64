package redispool

import (
	"testing"
)

// lateTake runs a Take that reaches Redis after its caller has stopped waiting for it.
func lateTake(t *testing.T, p *Pool, id int64, n int) {
	t.Helper()
	if err := p.run(t.Context(), p.scripts.take, p.cfg.Holder, id, n).Err(); err != nil {
		t.Fatalf("late Take: %v", err)
	}
}

// onRecord counts how often each code occurs in the list, in batches and in write-offs.
func onRecord(t *testing.T, p *Pool) map[string]int {
	t.Helper()
	codes := make(map[string]int)
	for f, err := range p.Snapshot(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		codes[f.Code]++
	}
	return codes
}

// A Take that arrives after the Release of its holder does not change the batches on record.
func TestLateTakeAfterReleaseDoesNotChangeBatches(t *testing.T) {
	t.Parallel()
	p, _ := newOpenPool(t)
	mustPush(t, p, testRange(1, 0, 6))
	if _, err := p.Take(t.Context(), 2); err != nil { // this batch is never settled
		t.Fatal(err)
	}
	if err := p.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	lateTake(t, p, 1, 2)
	if got := onRecord(t, p); len(got) != 6 {
		t.Errorf("the pool holds %d codes, want 6: %v", len(got), got)
	}
}

// A Take of an epoch may arrive after the next epoch has begun. The batch that it creates in the
// new epoch has the same id as a batch of the old epoch. When the holder settles the old batch, the
// new batch must not change. If PostgreSQL and Redis both return to older states, even the numbers of
// the two epochs may be equal.
func TestSettleOfOldBatchKeepsNewBatchWithSameID(t *testing.T) {
	t.Parallel()
	for _, next := range []int64{1, 2} {
		p, _ := newOpenPool(t)
		mustPush(t, p, testRange(1, 0, 2))
		b := mustTake(t, p, 2)
		if err := p.client.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		openEpoch(t, p, next)
		r := testRange(2, 2, 4)
		r.Epoch = next
		mustPush(t, p, r)
		lateTake(t, p, 1, 2)
		if err := p.Settle(t.Context(), b, b.Codes, nil); err != nil {
			t.Fatal(err)
		}
		got := onRecord(t, p)
		for _, code := range p.cfg.Space.Codes(r.Range) {
			if got[code] != 1 {
				t.Errorf("the pool of epoch %d holds the code %s %d times, want once", next, code, got[code])
			}
		}
		if len(got) != 4 {
			t.Errorf("the pool of epoch %d holds %d codes, want 4: %v", next, len(got), got)
		}
	}
}
