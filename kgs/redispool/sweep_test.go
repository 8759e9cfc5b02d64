package redispool

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"testing"

	"keypool/kgs"
	"keypool/kgs/audit"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
)

// refusingLedger is a Ledger that never abandons ranges that begin at the number lo.
type refusingLedger struct {
	*stubLedger
	lo int64
}

var errRefused = errors.New("the ledger refuses the range")

func (l refusingLedger) Abandon(ctx context.Context, ranges []codespace.Range, reason string) error {
	if ranges[0].Lo == l.lo {
		return errRefused
	}
	return l.stubLedger.Abandon(ctx, ranges, reason)
}

// A write-off that fails in every Sweep does not block the write-offs of other holders.
func TestSweepContinuesAfterWriteOffThatFails(t *testing.T) {
	t.Parallel()
	for _, lo := range []int64{0, 10, 20} {
		p, book := newOpenPool(t)
		mustPush(t, p, testRange(1, 0, 30))
		for _, holder := range []string{"dead-1", "dead-2", "dead-3"} {
			dead, _ := newTestPool(t, p.client, holder)
			mustTake(t, dead, 10)
		}
		p.cfg.Ledger = refusingLedger{book, lo}
		for _, want := range []int64{20, 0} {
			if n, err := p.Sweep(t.Context()); n != want || !errors.Is(err, errRefused) {
				t.Errorf("Sweep = %d, %v, want %d and errRefused", n, err, want)
			}
		}
		if _, batches := snapshot(t, p); !slices.Equal(batches, p.cfg.Space.Codes(codespace.Range{Length: 6, Lo: lo, Hi: lo + 10})) {
			t.Errorf("the codes %v are on record, want the codes from %d on", batches, lo)
		}
		p.cfg.Ledger = book
		if n, err := p.Sweep(t.Context()); n != 10 || err != nil {
			t.Errorf("Sweep = %d, %v, want 10", n, err)
		}
	}
}

// countingLedger is a Ledger that records the number of ranges in each call of Abandon.
type countingLedger struct {
	*stubLedger
	calls []int
}

func (l *countingLedger) Abandon(ctx context.Context, ranges []codespace.Range, reason string) error {
	l.calls = append(l.calls, len(ranges))
	return l.stubLedger.Abandon(ctx, ranges, reason)
}

// A write-off with many scattered numbers reaches the ledger in parts, so that each part is within the deadline.
func TestSweepAbandonsScatteredNumbersInParts(t *testing.T) {
	t.Parallel()
	p, book := newOpenPool(t)
	counting := &countingLedger{stubLedger: book}
	p.cfg.Ledger = counting
	var codes []string
	for lo := range int64(2*abandonChunk + 1) {
		codes = append(codes, p.cfg.Space.Codes(codespace.Range{Length: 6, Lo: 2 * lo, Hi: 2*lo + 1})...)
	}
	if err := p.abandon(t.Context(), codes, kgs.ReasonCrash); err != nil || !slices.Equal(counting.calls, []int{abandonChunk, abandonChunk, 1}) {
		t.Errorf("abandon: %v, with %v ranges in each call, want parts of %d", err, counting.calls, abandonChunk)
	}
}

// A worker dies after it has pushed half of a range. Two servers that took keys of this half die too. The batch of the
// first server contains the first keys of the range. Until another worker delivers the range, Redis keeps the record of
// this batch, and the accounts of an audit close.
func TestSweepAbandonsFirstKeysOfShippingRangeAfterDelivery(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.open("worker").begin(t, 1000, 500)
	for _, server := range []string{"first", "second"} {
		mustTake(t, New(d.client, Config{Holder: server, Space: d.space, Ledger: d.Ledger}), 100)
	}
	d.DeclareDead(t, "worker")
	heir := d.filler("heir")
	sweep := func(want int64) {
		t.Helper()
		if n, err := heir.cfg.Pool.Sweep(t.Context()); n != want || err != nil {
			t.Errorf("Sweep = %d, %v, want %d", n, err, want)
		}
	}
	sweep(100)
	sweep(0)
	d.wantAccounts(audit.Accounts{InPool: 300, InBatches: 100, Shipping: 500, Abandoned: map[string]int64{kgs.ReasonCrash: 100}})
	d.wantSize(heir, 300)
	d.fill(heir, 70, 500)
	sweep(100)
	d.WantRows(t, ledger.Row{
		Reservation: ledger.Reservation{Range: codespace.Range{Length: 6, Lo: 0, Hi: 200}}, State: ledger.StateAbandoned, Reason: kgs.ReasonCrash,
	})
	d.wantAccounts(audit.Accounts{InPool: 800, Abandoned: map[string]int64{kgs.ReasonCrash: 200}})
}

// wantAccounts runs an audit without links, and compares the places of the keys with want. The audit must find no fault.
func (d fixture) wantAccounts(want audit.Accounts) {
	d.t.Helper()
	pool := NewLists(d.client, Config{Holder: "auditor", Space: d.space, Ledger: d.Ledger}, 1, slog.New(slog.DiscardHandler))
	got, err := audit.Run(d.t.Context(), audit.Evidence{
		Space: d.space, Order: d.space, Snapshot: d.Snapshot, Epochs: pool.Epochs, Pool: pool.Snapshot,
		Links: func(context.Context) iter.Seq2[audit.Linked, error] { return func(func(audit.Linked, error) bool) {} },
	})
	if err != nil || got.FaultTotal() > 0 || got.InPool != want.InPool || got.InBatches != want.InBatches || got.Shipping != want.Shipping ||
		got.Abandoned[kgs.ReasonCrash] != want.Abandoned[kgs.ReasonCrash] {
		d.t.Errorf("the audit finds %+v, error %v, want %+v", got, err, want)
	}
}
