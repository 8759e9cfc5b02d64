package commit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/shortener"
)

var errUnknown = errors.New("connection reset")

func TestCommitFailsWithinASecondIfStoreHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := startCommitter(t, &fakeStore{insert: g.insert}, 0)
		start := time.Now()
		answers := commitMany(t.Context(), c, maxInserters+1)
		for i, a := range answers {
			err := (<-a).err
			if queued := i >= maxInserters; err == nil || errors.Is(err, shortener.ErrNotWritten) != queued {
				t.Errorf("commit of caller %d: error %v", i, err)
			}
		}
		if waited := time.Since(start); waited >= time.Second {
			t.Errorf("the callers waited for %v, want less than a second", waited)
		}
		// The Inserts end after insertTimeout and are not repeated, because no caller waits.
		<-time.After(insertTimeout)
		synctest.Wait()
		if len(g.rows) != maxInserters {
			t.Errorf("the store got %d Inserts, want %d", len(g.rows), maxInserters)
		}
		close(g.open)
		wantInserted(t, <-commitAsync(t.Context(), c, "back"))
	})
}

func TestCommitRepeatsInsertWithUnknownOutcome(t *testing.T) {
	t.Parallel()
	notWritten := fmt.Errorf("%w: refused", shortener.ErrNotWritten)
	for name, test := range map[string]struct {
		replies    []error // errors of the first Inserts; later Inserts succeed
		inserts    int
		inserted   bool
		notWritten bool
	}{
		"success":                               {nil, 1, true, false},
		"nothing written":                       {[]error{notWritten}, 1, false, true},
		"disk full":                             {[]error{fmt.Errorf("%w: %w", shortener.ErrNotWritten, shortener.ErrStoreFull)}, 1, false, true},
		"unknown outcome, then success":         {[]error{errUnknown, errUnknown}, 3, true, false},
		"unknown outcome, then nothing written": {[]error{errUnknown, notWritten}, 3, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var inserts int
				c := startCommitter(t, &fakeStore{insert: func(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
					inserts++
					if inserts <= len(test.replies) {
						return nil, test.replies[inserts-1]
					}
					return allInserted(ctx, links)
				}}, 0)
				outcome, err := c.commit(t.Context(), testLink("a"))
				if (outcome == shortener.Inserted) != test.inserted || errors.Is(err, shortener.ErrNotWritten) != test.notWritten || (err == nil) != test.inserted {
					t.Errorf("outcome %v, error %v", outcome, err)
				}
				if inserts != test.inserts {
					t.Errorf("the store got %d Inserts, want %d", inserts, test.inserts)
				}
			})
		})
	}
}

// TestCommitOutcomeIsUnknownIfFirstInsertMayHaveWritten uses a store whose first Insert fails with an unknown outcome.
// All later Inserts fail with ErrNotWritten. The error of the commit must not wrap ErrNotWritten,
// because the first Insert may have written the link.
func TestCommitOutcomeIsUnknownIfFirstInsertMayHaveWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := true
		c := startCommitter(t, &fakeStore{insert: func(context.Context, []shortener.Link) ([]shortener.Outcome, error) {
			if first {
				first = false
				return nil, errUnknown
			}
			return nil, shortener.ErrNotWritten
		}}, 0)
		if _, err := c.commit(t.Context(), testLink("a")); err == nil || errors.Is(err, shortener.ErrNotWritten) {
			t.Fatalf("commit after an unknown outcome: %v, want an error other than ErrNotWritten", err)
		}
	})
}

// TestCommitFailsOnlyForRefusedLinkOfGroup commits a group with one link that the store rejects. The other
// links must be written.
func TestCommitFailsOnlyForRefusedLinkOfGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := startCommitter(t, &fakeStore{insert: func(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
			for _, l := range links {
				if l.Code == "3" {
					return nil, fmt.Errorf("%w: %w", shortener.ErrNotWritten, shortener.ErrRefused)
				}
			}
			return g.insert(ctx, links)
		}}, 0)
		for range maxInserters {
			commitAsync(t.Context(), c, "busy") // occupies an inserter, so that the next links form one group
		}
		answers := commitMany(t.Context(), c, 7)
		close(g.open)
		wantOneFailed(t, answers, 3, shortener.ErrRefused)
	})
}

// TestCommitFailsOnlyForLinkWithBusyIdempotencyKey commits a group in which the idempotency key of one link is busy.
func TestCommitFailsOnlyForLinkWithBusyIdempotencyKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := startCommitter(t, &fakeStore{insert: func(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
			outcomes, err := g.insert(ctx, links)
			for i := range outcomes {
				if links[i].Code == "3" {
					outcomes[i] = shortener.Busy
				}
			}
			return outcomes, err
		}}, 0)
		for range maxInserters {
			commitAsync(t.Context(), c, "first") // occupies an inserter, so that the next links form one group
		}
		answers := commitMany(t.Context(), c, 7)
		close(g.open)
		wantOneFailed(t, answers, 3, shortener.ErrKeyBusy)
		if len(g.rows) != maxInserters+1 {
			t.Errorf("the store got %d Inserts, want %d", len(g.rows), maxInserters+1)
		}
	})
}

// If the outcome of the first Insert is unknown, this Insert may have written the link, or its transaction may still be in
// progress. So if the repeated Insert finds the idempotency key or the code in use, the first Insert may be the cause. Then the
// error of the commit must not wrap ErrNotWritten.
func TestCommitOutcomeIsUnknownIfRepeatedInsertFindsKeyOrCodeInUse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		outcome shortener.Outcome
		want    error
	}{{shortener.Repeated, ErrRepeated}, {shortener.Busy, shortener.ErrKeyBusy}, {shortener.CodeBusy, errCodeBusy}} {
		synctest.Test(t, func(t *testing.T) {
			lost := false
			c := startCommitter(t, &fakeStore{insert: func(context.Context, []shortener.Link) ([]shortener.Outcome, error) {
				if lost {
					lost = false
					return nil, errUnknown
				}
				return []shortener.Outcome{test.outcome}, nil
			}}, 0)
			if _, err := c.commit(t.Context(), testLink("a")); !errors.Is(err, test.want) || !errors.Is(err, shortener.ErrNotWritten) {
				t.Errorf("commit with the outcome %v: %v, want %v and ErrNotWritten", test.outcome, err, test.want)
			}
			lost = true
			if _, err := c.commit(t.Context(), testLink("a")); !errors.Is(err, errUnknown) || errors.Is(err, shortener.ErrNotWritten) {
				t.Errorf("commit with the outcome %v after an unknown outcome: %v, want an error other than ErrNotWritten", test.outcome, err)
			}
		})
	}
}

// TestCommitMetricsCountNoRowsOfFailedInsert checks that the metrics contain the duration of a failed Insert, but not
// its rows.
func TestCommitMetricsCountNoRowsOfFailedInsert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		replies := []error{errUnknown, nil}
		c := newCommitter(&fakeStore{insert: func(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
			err := replies[0]
			replies = replies[1:]
			if err != nil {
				return nil, err
			}
			return allInserted(ctx, links)
		}}, NewMetrics(registry), 0)
		wantInserted(t, <-commitAsync(t.Context(), c, "code"))
		if err := c.close(t.Context()); err != nil {
			t.Error(err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		observations := make(map[string]uint64)
		for _, family := range families {
			observations[family.GetName()] = family.GetMetric()[0].GetHistogram().GetSampleCount()
		}
		if rows, seconds := observations["shortener_commit_rows"], observations["shortener_commit_seconds"]; rows != 1 || seconds != 2 {
			t.Errorf("%d observations of rows and %d of seconds, want 1 and 2", rows, seconds)
		}
	})
}

// wantOneFailed checks that one commit fails with the error want, and that all other links are inserted. The parameter
// failed is the index of the commit that fails.
func wantOneFailed(t *testing.T, answers []<-chan answer, failed int, want error) {
	t.Helper()
	for i, a := range answers {
		if got := <-a; (i == failed) != errors.Is(got.err, want) || (i != failed) != (got.outcome == shortener.Inserted) {
			t.Errorf("link %d: outcome %v, %v", i, got.outcome, got.err)
		}
	}
}
