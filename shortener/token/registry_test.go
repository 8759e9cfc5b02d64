package token

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"keypool/shortener/storetest"
)

// watched is a registry in a test. The test can wait for each poll of the registry, and for each pass
// in which the recorder writes the last uses of tokens to the store.
type watched struct {
	*Registry
	t        *testing.T
	clock    atomic.Int64 // nanoseconds since 1970
	polls    chan error   // gets the result of a poll if the test waits for a poll
	recorded chan error   // gets the result of each pass of the recorder
	count    atomic.Int64 // number of polls
	stop     func()       // ends Run
}

// watch starts a registry of the tokens in s.
func watch(t *testing.T, s Store) *watched {
	t.Helper()
	w := &watched{t: t, polls: make(chan error), recorded: make(chan error, 10)}
	w.clock.Store(storetest.Moment().UnixNano())
	ctx, cancel := context.WithCancel(t.Context())
	notes := Notes{
		Poll: func(err error) {
			w.count.Add(1)
			select {
			case w.polls <- err:
			default:
			}
		},
		Record: func(err error) { w.recorded <- err },
	}
	var err error
	w.Registry, err = NewRegistry(t.Context(), s, notes, func() time.Time { return time.Unix(0, w.clock.Load()) })
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(w.stop)
	return w
}

func (w *watched) want(bearer string, want error) {
	w.t.Helper()
	if _, err := w.patiently(want, func() (Token, error) { return w.Authenticate(w.t.Context(), bearer) }); !errors.Is(err, want) {
		w.t.Errorf("Authenticate: %v, want %v", err, want)
	}
}

// patiently repeats a request that fails with ErrUnavailable, unless this error is wanted. On a busy machine, the polls may take
// longer than the time for which a request waits for them.
func (w *watched) patiently(want error, request func() (Token, error)) (token Token, err error) {
	for range 30 {
		if token, err = request(); !errors.Is(err, ErrUnavailable) || errors.Is(want, ErrUnavailable) {
			break
		}
	}
	return token, err
}

// awaitSuccess waits for a successful poll that begins after the call of awaitSuccess. On a busy machine, other
// polls may fail.
func (w *watched) awaitSuccess() {
	w.t.Helper()
	var last error
	for called, timeout := time.Now(), time.After(2*time.Minute); !w.Current().After(called); {
		select {
		case last = <-w.polls:
		case <-timeout:
			w.t.Fatalf("no poll has succeeded within 2 min; the last result: %v", last)
		}
	}
}

func receive(t *testing.T, from chan error) error {
	t.Helper()
	select {
	case err := <-from:
		return err
	case <-time.After(2 * time.Minute):
		t.Fatal("no signal within 2 min")
		return nil
	}
}

func TestAuthenticateChecksIDAndSecretAndExpiry(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		first, bearer := create(t, s, ordinary("first"))
		limited := ordinary("limited")
		limited.ExpiresAt = storetest.Moment().Add(time.Hour)
		second, expiring := create(t, s, limited)
		w := watch(t, s)
		got, err := w.Authenticate(t.Context(), bearer)
		if err != nil || got != first {
			t.Errorf("Authenticate = %+v, %v; want %+v", got, err, first)
		}
		_, secret, _ := parseBearer(bearer)
		w.want(formatBearer(second.ID, secret), ErrUnknown)
		w.want(bearer[:len(bearer)-1], ErrUnknown)
		w.want(strings.ToLower(bearer), ErrUnknown)
		w.want("", ErrUnknown)
		w.want(expiring, nil)
		w.clock.Store(limited.ExpiresAt.UnixNano())
		w.want(expiring, ErrExpired)
		w.want(bearer, nil)
		for id, want := range map[int64]string{first.ID: "first", second.ID: "limited", 0: "", 4711: ""} {
			if got := w.Name(id); got != want {
				t.Errorf("Name(%d) = %q, want %q", id, got, want)
			}
		}
	})
}

// After the next poll, the registry refuses a revoked token. Name still returns the name of the revoked token.
func TestRegistryRefusesRevokedTokenAfterNextPoll(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		created, bearer := create(t, s, ordinary("ci"))
		w := watch(t, s)
		w.want(bearer, nil)
		if err := s.Revoke(t.Context(), created.ID, storetest.Moment()); err != nil {
			t.Fatal(err)
		}
		w.awaitSuccess()
		w.want(bearer, ErrRevoked)
		if got := w.Name(created.ID); got != "ci" {
			t.Errorf("the name of the revoked token is %q", got)
		}
	})
}

// A token is valid as soon as Create has returned.
func TestNewTokenIsValidAtOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		w := watch(t, s)
		for i := range 3 {
			_, bearer := create(t, s, ordinary(fmt.Sprint("ci ", i)))
			w.want(bearer, nil)
		}
	})
}

func renew(t *testing.T, s Store, id int64) string {
	t.Helper()
	bearer, err := s.Renew(t.Context(), id, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return bearer
}

// The new secret of a token is valid as soon as Renew has returned, even if the token has expired. After the next poll, the
// registry refuses the old secret, even if no request with the new secret has arrived.
func TestRegistryAcceptsOnlyNewSecretOfRenewedToken(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		limited := ordinary("ci")
		limited.ExpiresAt = storetest.Moment().Add(time.Hour)
		created, first := create(t, s, limited)
		w := watch(t, s)
		w.want(first, nil)
		w.clock.Store(limited.ExpiresAt.UnixNano())
		w.want(first, ErrExpired)
		second := renew(t, s, created.ID)
		w.want(second, nil)
		w.want(first, ErrUnknown)
		w.wantValid("ci")
		third := renew(t, s, created.ID)
		w.awaitSuccess()
		w.want(second, ErrUnknown)
		w.want(third, nil)
	})
}

// Many requests with unknown ids, or with wrong secrets of a token, share few polls, because the rate of polls is limited.
func TestRequestsWithUnknownTokensSharePolls(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		known, _ := create(t, s, ordinary("ci"))
		w := watch(t, s)
		start, before := time.Now(), w.count.Load()
		var wg sync.WaitGroup
		for client := range 20 {
			wg.Go(func() {
				for i := range 3 {
					w.want(formatBearer(int64(1000+client*100+i), "secret"), ErrUnknown)
					w.want(formatBearer(known.ID, fmt.Sprint("secret ", client, i)), ErrUnknown)
				}
			})
		}
		wg.Wait()
		most := int64(time.Since(start)/pollPause) + 2
		if polls := w.count.Load() - before; polls > most {
			t.Errorf("60 unknown ids and 60 wrong secrets caused %d polls, want at most %d", polls, most)
		}
	})
}

// A known token needs no query, so it stays valid during an outage. For an unknown token or an unknown secret, the error
// is ErrUnavailable and not ErrUnknown, because the token may be new or renewed.
func TestKnownTokensStayValidDuringDatabaseOutage(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		_, bearer := create(t, s, ordinary("ci"))
		w := watch(t, s)
		if err := s.read.Close(); err != nil {
			t.Fatal(err)
		}
		for receive(t, w.polls) == nil { // until a poll fails
		}
		w.want(bearer, nil)
		w.want(formatBearer(4711, "secret"), ErrUnavailable)
		w.want(formatBearer(1, "secret"), ErrUnavailable)
		if got := w.Name(1); got != "ci" {
			t.Errorf("the name is %q", got)
		}
	})
}

// Without Run, a request with an unknown id gets an error after a limited time.
func TestAuthenticateHasTimeLimit(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	w := watch(t, SQLite(db.Read, db.Write))
	w.stop()
	w.want(formatBearer(4711, "secret"), ErrUnavailable)
}

func TestNewRegistryFailsWithoutDatabase(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	db.Read.Close()
	if _, err := NewRegistry(t.Context(), SQLite(db.Read, db.Write), Notes{}, nil); err == nil {
		t.Error("NewRegistry succeeds without a database")
	}
}

// The recorder writes only the first use of a token in an hour.
func TestTokenUsesAreRecordedOncePerHour(t *testing.T) {
	onEngines(t, func(t *testing.T, s Store) {
		_, bearer := create(t, s, ordinary("ci"))
		create(t, s, ordinary("unused"))
		w := watch(t, s)
		hour := storetest.Moment().UTC().Truncate(time.Hour)
		for range 2 {
			w.clock.Store(hour.Add(59 * time.Minute).UnixNano())
			w.want(formatBearer(1, "wrong"), ErrUnknown) // not a use
			w.want(bearer, nil)
			if err := receive(t, w.recorded); err != nil {
				t.Error(err)
			}
			for range 10 {
				w.want(bearer, nil)
			}
			if got := list(t, s); !got[0].LastUsedAt.Equal(hour) || !got[1].LastUsedAt.IsZero() {
				t.Errorf("last used at %v and %v, want %v and never", got[0].LastUsedAt, got[1].LastUsedAt, hour)
			}
			hour = hour.Add(time.Hour)
		}
		if n := len(w.recorded) + len(w.used); n != 0 {
			t.Errorf("%d further uses are recorded", n)
		}
	})
}

// If a use cannot be recorded, the recorder tries again later.
func TestFailedRecordingOfTokenUseIsRetried(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	s := SQLite(db.Read, db.Write)
	_, bearer := create(t, s, ordinary("ci"))
	w := watch(t, s)
	w.stop() // the test calls record itself
	w.want(bearer, nil)
	ended, end := context.WithCancel(t.Context())
	end()
	if err := w.record(ended); err == nil {
		t.Error("record succeeds although its context has ended")
	}
	if err := w.record(t.Context()); err != nil {
		t.Error(err)
	}
	if got := list(t, s)[0].LastUsedAt; got.IsZero() {
		t.Error("the use is not recorded")
	}
}

// BenchmarkAuthenticate measures the check of a known token.
func BenchmarkAuthenticate(b *testing.B) {
	db := storetest.SQLite(b)
	s := SQLite(db.Read, db.Write)
	_, bearer, err := s.Create(b.Context(), ordinary("ci"))
	if err != nil {
		b.Fatal(err)
	}
	r, err := NewRegistry(b.Context(), s, Notes{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Authenticate(b.Context(), bearer); err != nil {
			b.Fatal(err)
		}
	}
}
