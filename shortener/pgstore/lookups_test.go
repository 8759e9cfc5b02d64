package pgstore

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"keypool/shortener"
)

// slow returns a lookups whose statements take up to a millisecond, and a function that returns the
// size of the largest group.
func slow() (g *lookups, largest func() int) {
	var mu sync.Mutex
	most := 0
	g = &lookups{find: func(ctx context.Context, codes []string) (map[string]result, error) {
		mu.Lock()
		most = max(most, len(codes))
		mu.Unlock()
		timer := time.NewTimer(time.Duration(rand.IntN(1000)) * time.Microsecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		found := make(map[string]result)
		for _, code := range codes {
			found[code] = result{link: shortener.Link{Code: code}}
		}
		return found, nil
	}}
	return g, func() int { mu.Lock(); defer mu.Unlock(); return most }
}

// Half of the callers leave at a random moment: while they wait, while they lead, or while another
// caller leads. Every caller that stays must get its own row. At the end, no leader and no look-up may
// be left. A look-up that never gets an answer fails after an hour on the clock of the test.
func TestSharedLookupsAnswerEachCallerThatStillWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, largest := slow()
		var callers sync.WaitGroup
		for i := range 50 {
			callers.Go(func() {
				for n := range 100 {
					code := strconv.Itoa(i*1000 + n)
					patience := time.Hour
					if rand.IntN(2) == 0 {
						patience = time.Duration(rand.IntN(2000)) * time.Microsecond
					}
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					link, err := g.do(ctx, code)
					cancel()
					if err == nil && link.Code != code || err != nil && patience == time.Hour {
						t.Errorf("look-up of %s: %v, %v", code, link, err)
					}
				}
			})
		}
		callers.Wait()
		if largest() < 2 {
			t.Error("no look-ups shared a statement")
		}
		if g.running != 0 || len(g.waiting) != 0 {
			t.Errorf("%d leaders and %d look-ups are left, want none", g.running, len(g.waiting))
		}
	})
}

// The statement of a group ends with the context of its leader. So the leader must be the newest
// look-up, which has the most time left.
func TestNewestLookupLeadsNextGroup(t *testing.T) {
	t.Parallel()
	g := &lookups{running: maxStatements}
	old, newest := &lookup{turn: make(chan turn, 1)}, &lookup{turn: make(chan turn, 1)}
	for _, l := range []*lookup{old, newest} {
		if g.join(l) != nil {
			t.Fatal("a look-up leads although no further statement may run")
		}
	}
	g.handOver()
	if len(old.turn) != 0 || len(newest.turn) != 1 {
		t.Errorf("the look-ups got %d and %d messages, want 0 and 1", len(old.turn), len(newest.turn))
	}
}
