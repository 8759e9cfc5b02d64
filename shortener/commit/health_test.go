package commit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"keypool/internal/promvalue"
	"keypool/shortener"
)

// A part may be down before the store detects the outage. Then a creation whose link was not written uses a key of another
// part, and later creations avoid the part for failureMemory. The metrics count each key once.
func TestCreationsMoveToAnotherStorePartIfLinkWasNotWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, h, keys := startHalves(t)
		var down atomic.Bool
		down.Store(true)
		h.insert = func(_ context.Context, part int, _ []shortener.Link) (shortener.Outcome, error) {
			if part == 1 && down.Load() {
				return 0, fmt.Errorf("%w: connection refused", shortener.ErrNotWritten)
			}
			return 0, nil
		}
		mustCreate(t, p, 0, 10)
		if h.inserts[1] > 2 { // part 0 counts as good only after its first Insert
			t.Errorf("%d Inserts went to the part that is down, want at most 2", h.inserts[1])
		}
		drawn := keys.drawn
		time.Sleep(failureMemory + time.Millisecond)
		down.Store(false)
		mustCreate(t, p, 10, 15) // these creations use keys that were set aside
		keys.want(t, drawn, 15, 0, 0)
		wantTaken(t, p, float64(drawn))
		if conflicts := promvalue.ByLabel(p.Metrics.keyConflicts)["pool"]; conflicts != 0 {
			t.Errorf("%v conflicts are counted", conflicts)
		}
	})
}

// New links avoid a part in which an Insert is slow. If all parts are slow, new links avoid no part.
func TestCreationsAvoidSlowPartOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, h, _ := startHalves(t)
		var delay [2]atomic.Int64
		h.insert = func(_ context.Context, part int, _ []shortener.Link) (shortener.Outcome, error) {
			time.Sleep(time.Duration(delay[part].Load()))
			return 0, nil
		}
		mustCreate(t, p, 0, 2) // one link in each part
		delay[1].Store(int64(500 * time.Millisecond))
		var waiting sync.WaitGroup
		for i := range 4 { // two of these links go to part 1
			waiting.Go(func() {
				if _, err := create(t, p, 100+i, nil); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(slowInsert + time.Millisecond)
		began := time.Now()
		for _, code := range mustCreate(t, p, 200, 240) {
			if half(code) == 1 {
				t.Errorf("the link %s was created in the slow part", code)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("40 creations beside a slow part took %v", took)
		}
		waiting.Wait()
		before := h.inserts
		delay[0].Store(int64(200 * time.Millisecond))
		delay[1].Store(int64(200 * time.Millisecond))
		for i := range 8 {
			waiting.Go(func() {
				time.Sleep(time.Duration(i) * 50 * time.Millisecond)
				if _, err := create(t, p, 300+i, nil); err != nil {
					t.Error(err)
				}
			})
		}
		waiting.Wait()
		if h.inserts[0] < before[0]+2 || h.inserts[1] < before[1]+2 {
			t.Errorf("Inserts by part: %v, then %v; want both parts to get links while both are slow", before, h.inserts)
		}
	})
}

// A part counts as good if its last Insert succeeded, even if the part does not answer now. If the only good part does not
// answer, creations must use the parts whose Inserts fail, and must not set the keys of these parts aside.
func TestCreationsUseFailingStorePartsIfNoOtherPartAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, h, keys := startHalves(t)
		h.parts = 3
		mustCreate(t, p, 0, 9)
		h.off[2].Store(true) // the last Insert in this part succeeded
		var failing atomic.Bool
		failing.Store(true)
		h.insert = func(context.Context, int, []shortener.Link) (shortener.Outcome, error) {
			if failing.Load() {
				return 0, fmt.Errorf("%w: the disk is full", shortener.ErrNotWritten)
			}
			return 0, nil
		}
		for i := range 3 {
			if _, err := create(t, p, 10+i, nil); !errors.Is(err, shortener.ErrNotWritten) {
				t.Errorf("a creation while every part fails: %v, want ErrNotWritten", err)
			}
		}
		if h.inserts[0]+h.inserts[1] > 6+3*2 {
			t.Errorf("Inserts by part: %v; want each creation to try each of two parts once", h.inserts)
		}
		failing.Store(false)
		drawn := keys.drawn
		mustCreate(t, p, 20, 26)
		if extra := keys.drawn - drawn; extra > 12 {
			t.Errorf("6 creations drew %d keys, want at most 12", extra)
		}
	})
}

// When failureMemory has passed after a failure of a part, the next Insert in this part is a test. While this Insert is
// running, the part counts as bad for all other creations.
func TestOnlyOneInsertTestsStorePartAfterFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := health{origin: time.Now()}
		h.begin()(errors.New("connection reset"))
		if h.good() || !h.bad() {
			t.Error("a part whose Insert failed is good, or is not bad")
		}
		time.Sleep(failureMemory + time.Millisecond)
		if h.good() || h.bad() {
			t.Error("after failureMemory, a part is still bad, or counts as good before an Insert succeeded")
		}
		ended := h.begin()
		time.Sleep(time.Millisecond)
		if !h.bad() {
			t.Error("the part is not bad while an Insert tests the part")
		}
		ended(nil)
		if !h.good() || h.bad() {
			t.Error("the part is not good after an Insert succeeded")
		}
	})
}

// After moveTimeout, a creation fails instead of moving to another part.
func TestCreationDoesNotMoveToAnotherStorePartAfterTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, h, _ := startHalves(t)
		h.parts = 4
		h.insert = func(context.Context, int, []shortener.Link) (shortener.Outcome, error) {
			time.Sleep(800 * time.Millisecond)
			return 0, shortener.ErrNotWritten
		}
		began := time.Now()
		if _, err := create(t, p, 0, nil); !errors.Is(err, shortener.ErrNotWritten) {
			t.Error(err)
		}
		if took := time.Since(began); took != 2400*time.Millisecond {
			t.Errorf("the creation took %v, want three commits of 0.8 s each", took)
		}
	})
}

// No other part gets the link in these cases: the commit would fail in each part; the idempotency key belongs to the
// first part; or the first part may have stored the link.
func TestCreationStaysInFirstStorePartIfMoveIsUselessOrUnsafe(t *testing.T) {
	t.Parallel()
	key := &shortener.IdempotencyKey{Owner: 1, Key: "key1"} // belongs to the same part as the first key
	unknown := errors.New("connection reset")
	for name, test := range map[string]struct {
		key      *shortener.IdempotencyKey
		replies  []any // replies of Insert: outcomes or errors; the last reply is repeated
		returned int
	}{
		"idempotency key used before":         {key, []any{shortener.Repeated}, 1},
		"idempotency key busy":                {key, []any{shortener.Busy}, 1},
		"idempotency key belongs to the part": {key, []any{shortener.ErrNotWritten}, 1},
		"link refused by the store":           {nil, []any{fmt.Errorf("%w: %w", shortener.ErrNotWritten, shortener.ErrRefused)}, 1},
		"store with another order":            {nil, []any{fmt.Errorf("%w: %w", shortener.ErrNotWritten, shortener.ErrOtherOrder)}, 1},
		"unknown outcome, then not written":   {nil, []any{unknown, shortener.ErrNotWritten}, 0},
		"unknown outcome, then busy":          {key, []any{unknown, shortener.Busy}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, h, keys := startHalves(t)
				h.insert = func(context.Context, int, []shortener.Link) (shortener.Outcome, error) {
					reply := test.replies[0]
					test.replies = test.replies[min(1, len(test.replies)-1):]
					if err, failed := reply.(error); failed {
						return 0, err
					}
					return reply.(shortener.Outcome), nil
				}
				if _, err := create(t, p, 0, test.key); err == nil {
					t.Error("the creation succeeded")
				}
				if h.inserts[0] != 0 {
					t.Error("the other part got the link")
				}
				if test.returned == 1 && h.inserts[1] != 1 { // the group commit repeats only an Insert of unknown outcome
					t.Errorf("the part got the link %d times, want once", h.inserts[1])
				}
				keys.want(t, 1, 0, test.returned, 1-test.returned)
			})
		})
	}
}
