package shortener

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func startCommitter(t testing.TB, s Store, queueSize int) *committer {
	t.Helper()
	c := newCommitter(s, NewMetrics(prometheus.NewRegistry()), queueSize)
	t.Cleanup(func() {
		if err := c.close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return c
}

func allInserted(_ context.Context, links []Link) ([]Outcome, error) {
	outcomes := make([]Outcome, len(links))
	for i := range outcomes {
		outcomes[i] = Inserted
	}
	return outcomes, nil
}

// gate is an Insert that waits until it is opened, or for its context.
type gate struct {
	open chan struct{}
	rows []int // in each Insert
	mu   sync.Mutex
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) insert(ctx context.Context, links []Link) ([]Outcome, error) {
	g.mu.Lock()
	g.rows = append(g.rows, len(links))
	g.mu.Unlock()
	select {
	case <-g.open:
		return allInserted(ctx, links)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// answer is what commit gave to one caller.
type answer struct {
	outcome Outcome
	err     error
}

// commitAsync starts a commit and returns when it waits.
func commitAsync(ctx context.Context, c *committer, code string) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		outcome, err := c.commit(ctx, keyLink(code))
		answers <- answer{outcome, err}
	}()
	synctest.Wait()
	return answers
}

func wantInserted(t *testing.T, a answer) {
	t.Helper()
	if a.outcome != Inserted || a.err != nil {
		t.Fatalf("outcome %v, %v", a.outcome, a.err)
	}
}

func TestCommitSharesInserts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := startCommitter(t, &brokenStore{insert: g.insert}, 0)
		var answers []<-chan answer
		for i := range defaultInserters + 10 {
			answers = append(answers, commitAsync(t.Context(), c, fmt.Sprint(i)))
		}
		close(g.open)
		for _, a := range answers {
			wantInserted(t, <-a)
		}
		// Each of the first found an inserter free; all that came later share one Insert.
		if len(g.rows) != defaultInserters+1 || g.rows[defaultInserters] != 10 {
			t.Fatalf("rows of the Inserts: %v", g.rows)
		}
	})
}

// serialStore is one with a single writer.
type serialStore struct{ brokenStore }

func (*serialStore) serialInserts() {}

func TestCommitSerialStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := startCommitter(t, &serialStore{brokenStore{insert: g.insert}}, 0)
		first, second := commitAsync(t.Context(), c, "1"), commitAsync(t.Context(), c, "2")
		if len(g.rows) != 1 {
			t.Errorf("%d Inserts at once", len(g.rows))
		}
		close(g.open)
		wantInserted(t, <-first)
		wantInserted(t, <-second)
	})
}

func TestCommitOutcomePerRow(t *testing.T) {
	t.Parallel()
	s := openSQLite(t)
	c := startCommitter(t, s, 0)
	const callers, codes = 100, 40
	var inserted atomic.Int32
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			link := keyLink(fmt.Sprint(i % codes))
			link.URL = fmt.Sprintf("https://h/%d", i)
			outcome, err := c.commit(t.Context(), link)
			if err != nil {
				t.Error(err)
			}
			stored, err := s.Lookup(t.Context(), link.Code)
			if err != nil {
				t.Error(err)
			}
			if mine := stored.URL == link.URL; mine != (outcome == Inserted) {
				t.Errorf("outcome %v, the row says %s to %s", outcome, stored.URL, link.URL)
			}
			if outcome == Inserted {
				inserted.Add(1)
			}
		})
	}
	wg.Wait()
	if inserted.Load() != codes {
		t.Fatalf("%d inserted for %d codes", inserted.Load(), codes)
	}
}

func TestCommitQueueFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := startCommitter(t, &brokenStore{insert: g.insert}, 3)
		var answers []<-chan answer
		for i := range defaultInserters + 3 {
			answers = append(answers, commitAsync(t.Context(), c, fmt.Sprint(i)))
		}
		start := time.Now()
		_, err := c.commit(t.Context(), keyLink("one too many"))
		var refusal *UnavailableError
		if !errors.As(err, &refusal) || refusal.RetryAfter <= 0 || !errors.Is(err, ErrNotWritten) {
			t.Fatalf("a full queue: %v", err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Fatalf("it waited for %v", waited)
		}
		close(g.open)
		for _, a := range answers {
			wantInserted(t, <-a)
		}
		wantInserted(t, <-commitAsync(t.Context(), c, "there is room again"))
	})
}

// TestCommitCallerLeaves has callers give up in the queue, where their row is
// withdrawn, and in the middle of an Insert, which goes on.
func TestCommitCallerLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := startCommitter(t, &brokenStore{insert: g.insert}, 0)
		ctx, cancel := context.WithCancel(t.Context())
		inFlight := commitAsync(ctx, c, "in flight")
		for range defaultInserters - 1 {
			commitAsync(t.Context(), c, "busy")
		}
		waiting := commitAsync(ctx, c, "queued")
		other := commitAsync(t.Context(), c, "other")
		cancel()
		if a := <-waiting; !errors.Is(a.err, ErrNotWritten) || !errors.Is(a.err, context.Canceled) {
			t.Errorf("withdrawn from the queue: %v", a.err)
		}
		if a := <-inFlight; a.err == nil || errors.Is(a.err, ErrNotWritten) {
			t.Errorf("left in the middle of an Insert: %v", a.err)
		}
		close(g.open)
		wantInserted(t, <-other)
		if last := g.rows[len(g.rows)-1]; last != 1 {
			t.Errorf("%d rows, the withdrawn one among them", last)
		}
	})
}

func TestCommitterClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := startCommitter(t, &brokenStore{insert: g.insert}, 0)
		var answers []<-chan answer
		for i := range defaultInserters + 5 {
			answers = append(answers, commitAsync(t.Context(), c, fmt.Sprint(i)))
		}
		closed := make(chan error)
		go func() { closed <- c.close(t.Context()) }()
		synctest.Wait()
		if _, err := c.commit(t.Context(), keyLink("late")); !errors.Is(err, ErrNotWritten) {
			t.Errorf("commit after close: %v", err)
		}
		close(g.open)
		for _, a := range answers {
			wantInserted(t, <-a)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// TestCommitterCloseInTime closes over a store that hangs: what was sent has an
// unknown outcome, what was not, a definite one, and nothing keeps running.
func TestCommitterCloseInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := newCommitter(&brokenStore{insert: func(ctx context.Context, links []Link) ([]Outcome, error) {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("%w: %w", ErrNotWritten, ctx.Err())
			}
			return g.insert(ctx, links)
		}}, NewMetrics(prometheus.NewRegistry()), 0)
		var answers []<-chan answer
		for i := range defaultInserters + 1 {
			answers = append(answers, commitAsync(t.Context(), c, fmt.Sprint(i)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := c.close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		for i, a := range answers {
			err := (<-a).err
			if sent := i < defaultInserters; err == nil || errors.Is(err, ErrNotWritten) == sent {
				t.Errorf("link %d: %v", i, err)
			}
		}
	})
}
