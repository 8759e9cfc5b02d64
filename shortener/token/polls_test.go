package token

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"keypool/shortener/storetest"
)

// In the worst case, a token is revoked directly after a poll has read the version, and the next poll takes its
// full time. Even then, the sum of the limits must be below Freshness.
func TestPollLimitsKeepRevocationDelayBelowFreshness(t *testing.T) {
	t.Parallel()
	// next is the maximum time from the start of a poll to the start of the next poll.
	next := max(pollInterval, pollTimeout+pollPause)
	if worst := next + pollTimeout; worst > Freshness*9/10 {
		t.Errorf("a revocation may take %v, which is too long for the Freshness of %v", worst, Freshness)
	}
}

// slowly calls the function test in a synctest bubble. The function test gets a database and a function slow.
// After a call of slow, each query takes the given time, until the next call of slow. For this purpose, slow
// occupies the only connection for reading.
func slowly(t *testing.T, test func(t *testing.T, s Store, slow func(time.Duration))) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := storetest.SQLite(t)
		db.Read.SetMaxOpenConns(1)
		stop := func() {}
		occupy := func(ctx context.Context, d time.Duration) {
			for ctx.Err() == nil {
				conn, err := db.Read.Conn(ctx)
				if err != nil {
					return
				}
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
				conn.Close()
			}
		}
		slow := func(d time.Duration) {
			stop()
			ctx, cancel := context.WithCancel(t.Context())
			stop = cancel
			if d > 0 {
				go occupy(ctx, d)
			}
			synctest.Wait()
		}
		test(t, SQLite(db.Read, db.Write), slow)
		slow(0)
	})
}

// A failover loses a change that a server has in memory. If another change follows before the next poll, the poll must read
// the tokens again. The test itself calls reload, which is the poll.
func TestServerReadsTokensAgainAfterLostChangeAndAnotherChange(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		revoked, bearer := create(t, s, ordinary("ci"))
		before := versionOf(t, s)
		lost, _ := create(t, s, ordinary("lost"))
		r, err := NewRegistry(t.Context(), s, Notes{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		failOver(t, s, lost.ID, before)
		if err := s.Revoke(t.Context(), revoked.ID, storetest.Moment()); err != nil {
			t.Fatal(err)
		}
		if err := r.reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Authenticate(t.Context(), bearer); !errors.Is(err, ErrRevoked) {
			t.Errorf("Authenticate: %v, want ErrRevoked", err)
		}
		if name := r.Name(lost.ID); name != "" {
			t.Errorf("the server still has the lost token %q", name)
		}
	})
}

// NewRegistry has only the time limit of its context, which the start of a server sets.
func TestNewRegistryWaitsForSlowDatabase(t *testing.T) {
	slowly(t, func(t *testing.T, s Store, slow func(time.Duration)) {
		_, bearer := create(t, s, ordinary("ci"))
		slow(10 * time.Second)
		w := watch(t, s)
		w.want(bearer, nil)
		w.stop()
	})
}

// The database is so slow that all polls exceed pollTimeout. A revocation nevertheless reaches the server, and the
// server reports errLate.
func TestRevocationReachesServerAlthoughDatabaseIsSlow(t *testing.T) {
	slowly(t, func(t *testing.T, s Store, slow func(time.Duration)) {
		created, bearer := create(t, s, ordinary("ci"))
		w := watch(t, s)
		w.await(nil)
		slow(2 * pollTimeout)
		if err := s.Revoke(t.Context(), created.ID, storetest.Moment()); err != nil {
			t.Fatal(err)
		}
		w.await(errLate)
		time.Sleep(10 * time.Second)
		w.want(bearer, ErrRevoked)
		slow(0)
		w.await(nil)
		time.Sleep(Freshness)
		if age := time.Since(w.Current()); age > Freshness {
			t.Errorf("the tokens in memory are %v old, although the database is fast again", age)
		}
		w.stop()
	})
}

// If a poll runs out of time, a request with an unknown id waits for the next poll.
func TestNewTokenIsValidAlthoughDatabaseIsSlow(t *testing.T) {
	slowly(t, func(t *testing.T, s Store, slow func(time.Duration)) {
		w := watch(t, s)
		_, bearer := create(t, s, ordinary("ci"))
		slow(pollTimeout * 8 / 10) // two queries together exceed the limit
		// The test does not call want, because want would repeat the request.
		if _, err := w.Authenticate(t.Context(), bearer); err != nil {
			t.Errorf("Authenticate: %v, want no error", err)
		}
		w.stop()
	})
}

// await waits for a poll with the given result.
func (w *watched) await(want error) {
	w.t.Helper()
	for range 100 {
		if err := receive(w.t, w.polls); errors.Is(err, want) {
			return
		}
	}
	w.t.Fatalf("no poll has the result %v", want)
}

func TestPollTimeLimitFollowsDurationOfLastPoll(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ limit, took, want time.Duration }{
		{pollTimeout, 0, pollTimeout},
		{pollTimeout, pollTimeout, 2 * pollTimeout},
		{2 * pollTimeout, pollTimeout, 2 * pollTimeout},
		{2 * pollTimeout, pollTimeout - 1, pollTimeout},
		{maxPollTimeout, maxPollTimeout + 1, maxPollTimeout},
	} {
		if got := nextLimit(tt.limit, tt.took); got != tt.want {
			t.Errorf("after a poll of %v with the limit %v, the limit is %v, want %v", tt.took, tt.limit, got, tt.want)
		}
	}
}
