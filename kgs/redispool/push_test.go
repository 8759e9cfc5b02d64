package redispool

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

func TestRedisPoolPushesEachNumberOnce(t *testing.T) {
	t.Parallel()
	p, _ := newOpenPool(t)
	r := testRange(7, 1000, 30)
	older, newer := r, r
	older.Epoch, newer.Epoch = 0, 2
	steps := []struct {
		what     string
		r        ledger.Reservation
		from, to int64
		mark     int64
		err      error
		keys     int64 // number of keys in the pool after the push
	}{
		{"first", r, 1000, 1010, 1010, nil, 10},
		{"repeated", r, 1000, 1010, 1010, nil, 10},
		{"overlapping", r, 1005, 1015, 1010, nil, 10},
		{"leaving a gap", r, 1020, 1030, 1010, nil, 10},
		{"next", r, 1010, 1020, 1020, nil, 20},
		{"of an older epoch", older, 1020, 1030, 0, kgs.ErrFenced, 20},
		{"of a future epoch", newer, 1020, 1030, 0, kgs.ErrNoEpoch, 20},
		{"last", r, 1020, 1030, 1030, nil, 30},
		{"repeated from the start", r, 1000, 1030, 1030, nil, 30},
		{"beyond 2^53", ledger.Reservation{Range: codespace.Range{Length: 10, Lo: 839299365868340214, Hi: 839299365868340224}, ID: 8, Epoch: 1}, 839299365868340214, 839299365868340219, 839299365868340219, nil, 35},
		{"repeated beyond 2^53", ledger.Reservation{Range: codespace.Range{Length: 10, Lo: 839299365868340214, Hi: 839299365868340224}, ID: 8, Epoch: 1}, 839299365868340218, 839299365868340219, 839299365868340219, nil, 35},
	}
	for _, s := range steps {
		mark, err := push(t.Context(), p, s.r, s.from, s.to)
		if mark != s.mark || !errors.Is(err, s.err) {
			t.Errorf("%s: Push = %d, %v, want %d, %v", s.what, mark, err, s.mark, s.err)
		}
		if status, err := p.Status(t.Context()); status.Keys != s.keys || err != nil {
			t.Errorf("%s: the pool holds %d keys (%v), want %d", s.what, status.Keys, err, s.keys)
		}
	}
	if got := mustTake(t, p, 30).Codes; !slices.Equal(got, kgstest.Codes(1000, 1030)) {
		t.Errorf("Take returned %v, want the 30 pushed codes", got)
	}
}

func TestRedisPoolPushRefusesCodesThatDoNotFitRange(t *testing.T) {
	t.Parallel()
	p, _ := newOpenPool(t)
	r := testRange(1, 0, 10)
	for _, c := range []struct{ from, to, size int64 }{{0, 10, 59}, {0, 11, 66}, {-1, 9, 60}, {5, 5, 0}} {
		if _, err := p.Push(t.Context(), r, c.from, c.to, make([]byte, c.size)); err == nil {
			t.Errorf("Push accepted %d bytes for [%d, %d) of %+v", c.size, c.from, c.to, r)
		}
	}
}

func TestRedisPoolRefusesPushOfResumedWorker(t *testing.T) {
	t.Parallel()
	p, _ := newOpenPool(t)
	frozen, next := testRange(1, 0, 20), testRange(2, 20, 20)
	if _, err := push(t.Context(), p, frozen, 0, 10); err != nil {
		t.Fatal(err)
	}
	// Another worker takes over the range, continues at the mark, and delivers the range.
	if mark, err := push(t.Context(), p, frozen, 10, 20); mark != 20 || err != nil {
		t.Fatalf("the push of the other worker = %d, %v, want 20", mark, err)
	}
	mustPush(t, p, next)
	for _, floor := range []int64{2, 1} { // the second call has a lower floor, so it changes nothing
		if err := p.Forget(t.Context(), 1, floor); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := push(t.Context(), p, frozen, 0, 10); !errors.Is(err, kgs.ErrFenced) {
		t.Errorf("the push of the thawed worker: %v, want ErrFenced", err)
	}
	if mark, err := push(t.Context(), p, next, 20, 40); mark != 40 || err != nil {
		t.Errorf("a push of the range whose id is the floor = %d, %v, want 40", mark, err)
	}
	for epoch, want := range map[int64]error{0: kgs.ErrFenced, 2: kgs.ErrNoEpoch} {
		if err := p.Forget(t.Context(), epoch, 9); !errors.Is(err, want) {
			t.Errorf("Forget by a worker of epoch %d: %v, want %v", epoch, err, want)
		}
	}
	// This is the control. The mark is already deleted, so without the floor the range is pushed
	// again.
	p.client.HSet(t.Context(), p.keys[0], "floor", 0)
	if mark, err := push(t.Context(), p, frozen, 0, 10); mark != 10 || err != nil {
		t.Errorf("Push without a floor = %d, %v, want 10; this test proves nothing", mark, err)
	}
}

func TestRedisPoolSweepAbandonsBatchesOfDeadHolders(t *testing.T) {
	t.Parallel()
	dead, _ := newOpenPool(t)
	p, book := newTestPool(t, dead.client, "worker")
	mustPush(t, p, testRange(1, 0, 100))
	lost, held := mustTake(t, dead, 10), mustTake(t, p, 10)
	if n, err := p.Sweep(t.Context()); n != 0 || err != nil {
		t.Fatalf("Sweep = %d, %v, want 0 while all holders are alive", n, err)
	}
	book.alive = []string{"worker"}
	book.err = errors.New("the ledger is down")
	if _, err := p.Sweep(t.Context()); !errors.Is(err, book.err) {
		t.Errorf("Sweep: %v, want the ledger's error", err)
	}
	// The holder was only frozen and settles its batch now, which must have no effect.
	if err := dead.Settle(t.Context(), lost, lost.Codes, nil); err != nil {
		t.Errorf("Settle of a batch that was written off: %v", err)
	}
	book.err = nil
	for _, want := range []int64{10, 0} {
		if n, err := p.Sweep(t.Context()); n != want || err != nil {
			t.Errorf("Sweep = %d, %v, want %d", n, err, want)
		}
	}
	if diff := cmp.Diff(map[string][]codespace.Range{kgs.ReasonCrash: {{Length: 6, Lo: 0, Hi: 10}}}, book.ranges); diff != "" {
		t.Errorf("the ledger (-want +got):\n%s", diff)
	}
	list, batches := snapshot(t, p)
	if !slices.Equal(list, kgstest.Codes(20, 100)) || !slices.Equal(batches, held.Codes) {
		t.Errorf("the list has %v and the batches have %v, want the codes 20 to 99 and the batch of the live holder",
			list, batches)
	}
	// The holder sent a Take before it was declared dead. The Take arrives late and gets no
	// keys.
	if late, err := p.run(t.Context(), p.scripts.take, "holder", lost.ID, 10).Text(); late != "" || err != nil {
		t.Errorf("a late Take returned %q, %v, want no codes", late, err)
	}
	if again := mustTake(t, dead, 5); !slices.Equal(again.Codes, kgstest.Codes(20, 25)) {
		t.Errorf("Take of the thawed holder returned %v, want the codes 20 to 24", again.Codes)
	}
}

func TestOpenOfRedisPoolRemovesKeysOnlyForLaterEpoch(t *testing.T) {
	t.Parallel()
	p, _ := newOpenPool(t)
	mustPush(t, p, testRange(1, 0, 30))
	b := mustTake(t, p, 10)
	openEpoch(t, p, 1)
	if status, err := p.Status(t.Context()); status.Keys != 20 || status.Epoch != 1 || err != nil {
		t.Errorf("Status after a second Open for epoch 1 = %+v, %v, want 20 keys and epoch 1", status, err)
	}
	if err := p.Open(t.Context(), 2, "another run"); !errors.Is(err, kgs.ErrNoEpoch) {
		t.Errorf("Open for another history of the data: %v, want ErrNoEpoch", err)
	}
	openEpoch(t, p, 3)
	openEpoch(t, p, 2) // this call comes too late, so it changes nothing
	if status, err := p.Status(t.Context()); status.Keys != 0 || status.Epoch != 3 || err != nil {
		t.Errorf("Status after Open for epoch 3 = %+v, %v, want no keys and epoch 3", status, err)
	}
	if err := p.Settle(t.Context(), b, b.Codes, b.Codes[:1]); err != nil {
		t.Errorf("Settle of a batch of an older epoch: %v", err)
	}
	if list, batches := snapshot(t, p); len(list)+len(batches) > 0 {
		t.Errorf("Settle of a batch of an older epoch left the list %v and the batches %v, want both empty", list, batches)
	}
}
