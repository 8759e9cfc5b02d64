package commit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/internal/testenv"
	"keypool/shortener"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func testLink(code string) shortener.Link {
	return shortener.Link{Code: code, URL: "https://go.dev/" + code, Source: "pool", CreatedAt: time.Unix(0, 0).UTC()}
}

func startCommitter(t testing.TB, s shortener.Store, queueSize int) *committer {
	t.Helper()
	c := newCommitter(s, NewMetrics(prometheus.NewRegistry()), queueSize)
	t.Cleanup(func() {
		if err := c.close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return c
}

// fakeStore is a Store whose Insert the test defines. If writers is 0, the store has two writers.
type fakeStore struct {
	shortener.Store
	insert  func(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error)
	writers int
}

func (f *fakeStore) Insert(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
	return f.insert(ctx, links)
}

func (f *fakeStore) Writers() int {
	if f.writers == 0 {
		return 2
	}
	return f.writers
}

func allInserted(_ context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
	outcomes := make([]shortener.Outcome, len(links))
	for i := range outcomes {
		outcomes[i] = shortener.Inserted
	}
	return outcomes, nil
}

// gate supplies an Insert that blocks until open is closed or the context of the Insert ends.
type gate struct {
	open chan struct{}
	rows []int // number of rows of each Insert
	mu   sync.Mutex
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) insert(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
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

// answer is the result of commit for one caller.
type answer struct {
	outcome shortener.Outcome
	err     error
}

// commitAsync starts a commit on a goroutine. It returns after the commit blocks or is done.
func commitAsync(ctx context.Context, c *committer, code string) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		outcome, err := c.commit(ctx, testLink(code))
		answers <- answer{outcome, err}
	}()
	synctest.Wait()
	return answers
}

// commitMany starts n commits of links with the codes 0, 1 and so on. It starts the commits one after the other.
func commitMany(ctx context.Context, c *committer, n int) (answers []<-chan answer) {
	for i := range n {
		answers = append(answers, commitAsync(ctx, c, fmt.Sprint(i)))
	}
	return answers
}

func wantInserted(t *testing.T, a answer) {
	t.Helper()
	if a.outcome != shortener.Inserted || a.err != nil {
		t.Fatalf("commit = %v, %v, want Inserted", a.outcome, a.err)
	}
}

func TestConcurrentCommitsShareInserts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := startCommitter(t, &fakeStore{insert: g.insert}, 0)
		answers := commitMany(t.Context(), c, maxInserters+10)
		close(g.open)
		for _, a := range answers {
			wantInserted(t, <-a)
		}
		// Each of the first links found an idle inserter. All later links share one Insert.
		if len(g.rows) != maxInserters+1 || g.rows[maxInserters] != 10 {
			t.Fatalf("the Inserts have %v rows, want 10 rows in the last Insert", g.rows)
		}
	})
}

// A store with one writer gets only one Insert at a time. The links that arrive during this Insert
// share the next Insert.
func TestCommitterRunsOneInsertAtATimeIfStoreHasOneWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := startCommitter(t, &fakeStore{insert: g.insert, writers: 1}, 0)
		first, second := commitAsync(t.Context(), c, "1"), commitAsync(t.Context(), c, "2")
		if len(g.rows) != 1 {
			t.Errorf("%d Inserts at the same time, want 1", len(g.rows))
		}
		close(g.open)
		wantInserted(t, <-first)
		wantInserted(t, <-second)
	})
}

func TestCommitFailsWhenQueueIsFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := startCommitter(t, &fakeStore{insert: g.insert}, 3)
		answers := commitMany(t.Context(), c, maxInserters+3)
		start := time.Now()
		_, err := c.commit(t.Context(), testLink("one too many"))
		if !errors.Is(err, errQueueFull) || !errors.Is(err, shortener.ErrNotWritten) {
			t.Fatalf("commit with a full queue: %v, want errQueueFull, which wraps ErrNotWritten", err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Fatalf("commit with a full queue blocked for %v", waited)
		}
		close(g.open)
		for _, a := range answers {
			wantInserted(t, <-a)
		}
		wantInserted(t, <-commitAsync(t.Context(), c, "after the queue drained"))
	})
}

// TestCommitEndsWhenContextEnds ends the contexts of two callers. The link of one caller is in the
// queue, and the link of the other caller is in an Insert. The link in the queue must be withdrawn. The
// Insert must continue for the other links.
func TestCommitEndsWhenContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := startCommitter(t, &fakeStore{insert: g.insert}, 0)
		ctx, cancel := context.WithCancel(t.Context())
		blocked := commitAsync(ctx, c, "in call")
		for range maxInserters - 1 {
			commitAsync(t.Context(), c, "busy")
		}
		waiting := commitAsync(ctx, c, "queued")
		other := commitAsync(t.Context(), c, "other")
		cancel()
		if a := <-waiting; !errors.Is(a.err, shortener.ErrNotWritten) || !errors.Is(a.err, context.Canceled) {
			t.Errorf("commit whose link is in the queue: %v, want ErrNotWritten and Canceled", a.err)
		}
		if a := <-blocked; a.err == nil || errors.Is(a.err, shortener.ErrNotWritten) {
			t.Errorf("commit whose link is in an Insert: %v, want an error other than ErrNotWritten", a.err)
		}
		close(g.open)
		wantInserted(t, <-other)
		if last := g.rows[len(g.rows)-1]; last != 1 {
			t.Errorf("the last Insert has %d rows, want 1 without the withdrawn link", last)
		}
	})
}

func TestCommitterCloseCommitsQueuedLinks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := startCommitter(t, &fakeStore{insert: g.insert}, 0)
		answers := commitMany(t.Context(), c, maxInserters+5)
		closed := make(chan error)
		go func() { closed <- c.close(t.Context()) }()
		synctest.Wait()
		if _, err := c.commit(t.Context(), testLink("late")); !errors.Is(err, shortener.ErrNotWritten) {
			t.Errorf("commit after close: %v, want ErrNotWritten", err)
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

// TestCommitterCloseInterruptsHungStore checks the errors of the callers: the outcome of
// links in an Insert is unknown, and the other links get ErrNotWritten. It also checks that no
// goroutine remains.
func TestCommitterCloseInterruptsHungStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := newCommitter(&fakeStore{insert: func(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("%w: %w", shortener.ErrNotWritten, ctx.Err())
			}
			return g.insert(ctx, links)
		}}, NewMetrics(prometheus.NewRegistry()), 0)
		answers := commitMany(t.Context(), c, maxInserters+1)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := c.close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v, want DeadlineExceeded", err)
		}
		for i, a := range answers {
			err := (<-a).err
			if sent := i < maxInserters; err == nil || errors.Is(err, shortener.ErrNotWritten) == sent {
				t.Errorf("commit of link %d: error %v", i, err)
			}
		}
	})
}

// BenchmarkCommitAlone measures the committer on a store that takes no time.
func BenchmarkCommitAlone(b *testing.B) {
	c := startCommitter(b, &fakeStore{insert: allInserted}, 0)
	link := testLink("a")
	b.ReportAllocs()
	b.SetParallelism(32) // number of goroutines for each processor
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.commit(context.Background(), link); err != nil {
				b.Error(err)
			}
		}
	})
}
