package service_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/shortener/service"
)

// keyStore is a store whose method ForgetKeys returns the given results, one after the other.
type keyStore struct {
	shortener.Store
	results []any // each result is an int or an error
	before  []time.Time
}

func (s *keyStore) ForgetKeys(_ context.Context, before time.Time, _ int) (int, error) {
	s.before = append(s.before, before)
	result := s.results[0]
	s.results = s.results[1:]
	if err, failed := result.(error); failed {
		return 0, err
	}
	return result.(int), nil
}

// ForgetKeys must not wait before the first removal, because a server may restart more often
// than every ten minutes.
func TestForgetKeysRemovesEveryOldIdempotencyKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("the store does not answer")
		store := &keyStore{results: []any{1000, 1000, 3, failure, 0}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		var notes []error
		go func() { done <- service.ForgetKeys(ctx, store, func(err error) { notes = append(notes, err) }) }()
		start := time.Now()
		time.Sleep(20*time.Minute + time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(store.results) > 0 || len(notes) != 3 || notes[0] != nil || !errors.Is(notes[1], failure) || notes[2] != nil {
			t.Errorf("%d results are left, and the notes are %v", len(store.results), notes)
		}
		if want := start.Add(-shortener.IdempotencyKeyLifetime); !store.before[0].Equal(want) {
			t.Errorf("the first removal removed keys from before %v, want %v", store.before[0], want)
		}
	})
}

// If another transaction that has not ended holds the idempotency key of a creation, the code of the creation is settled
// as returned. There is one exception: if the outcome of an earlier Insert of the same creation is unknown, the transaction
// of this Insert may hold the idempotency key. Then the code is settled as lost.
func TestCreateIdempotentSettlesCodeIfIdempotencyKeyIsBusy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		replies []error // errors of the first Inserts; the outcome of later Inserts is Busy
		want    error
		batch   string
	}{
		"busy":                       {nil, shortener.ErrKeyBusy, "returned code"},
		"unknown outcome, then busy": {[]error{errDown}, errDown, "lost code"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &faultyStore{Store: newStore(t), insert: func(context.Context, []shortener.Link) ([]shortener.Outcome, error) {
				if len(test.replies) > 0 {
					err := test.replies[0]
					test.replies = test.replies[1:]
					return nil, err
				}
				return []shortener.Outcome{shortener.Busy}, nil
			}}
			batch := &recordedBatch{}
			s := startService(t, service.Config{Store: store, Keys: listed(shortener.Key{Code: "code", Batch: batch})})
			_, _, replayed, err := s.CreateIdempotent(t.Context(), shortener.Request{URL: "https://go.dev/", Owner: 1}, "key")
			if !errors.Is(err, test.want) || replayed {
				t.Errorf("CreateIdempotent: replayed %v, %v; want %v", replayed, err, test.want)
			}
			batch.assert(t, test.batch)
		})
	}
}

// The repeated requests of one token leave slots for other tokens. The repeated requests of all tokens leave connections to
// the database for other work.
func TestRepetitionsWaitForSlotsOfTokenAndServer(t *testing.T) {
	t.Parallel()
	t.Run("one token", func(t *testing.T) { testRepetitions(t, 1, 4) })
	t.Run("two tokens", func(t *testing.T) { testRepetitions(t, 2, 6) })
}

// testRepetitions repeats the requests of the given number of tokens. The maximum number of repetitions that run at the same
// time must be want.
func testRepetitions(t *testing.T, tokens, want int) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		var mu sync.Mutex
		running, most := 0, 0
		enter := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			running += n
			most = max(most, running)
		}
		s := startService(t, service.Config{Keys: sequence("pool"), Store: &faultyStore{Store: store, lookup: func(ctx context.Context, code string) (shortener.Link, error) {
			enter(1)
			defer enter(-1)
			time.Sleep(10 * time.Millisecond)
			return store.Lookup(ctx, code)
		}}})
		requestOf := func(i int) shortener.Request {
			return shortener.Request{URL: "https://go.dev/", Owner: int64(1 + i%tokens)}
		}
		for i := range tokens {
			if _, _, _, err := s.CreateIdempotent(t.Context(), requestOf(i), "key"); err != nil {
				t.Fatal(err)
			}
		}
		var repetitions sync.WaitGroup
		for i := range 100 {
			repetitions.Go(func() {
				if _, _, replayed, err := s.CreateIdempotent(t.Context(), requestOf(i), "key"); err != nil || !replayed {
					t.Errorf("CreateIdempotent: replayed %v, %v", replayed, err)
				}
			})
		}
		repetitions.Wait()
		if most != want {
			t.Errorf("%d repetitions read the first link at the same time, want %d", most, want)
		}
	})
}

// A repeated request gets the link of the first request, even if the request is not valid any
// more.
func TestCreateIdempotentReturnsFirstLinkAfterRequestBecameInvalid(t *testing.T) {
	t.Parallel()
	now := testNow
	s := startService(t, service.Config{Store: newStore(t), Keys: sequence("pool"), Now: func() time.Time { return now }})
	expiry := given(testNow.Add(time.Hour).Format(time.RFC3339))
	short := shortener.Request{URL: "https://go.dev/", ExpiresAt: expiry, Owner: 1}
	lasting := shortener.Request{URL: "https://bad.example/", Owner: 1}
	other := shortener.Request{URL: "https://bad.example/other", ExpiresAt: expiry, Owner: 1}
	links := make(map[string]shortener.Link)
	for key, r := range map[string]shortener.Request{"short": short, "lasting": lasting} {
		link, _, replayed, err := s.CreateIdempotent(t.Context(), r, key)
		if err != nil || replayed {
			t.Fatalf("CreateIdempotent: replayed %v, %v", replayed, err)
		}
		links[key] = link
	}
	now = now.Add(2 * time.Hour)
	s.Block(hosts(t, "bad.example"))
	for _, test := range []struct {
		r    shortener.Request
		key  string
		want error
	}{
		{short, "short", nil},
		{lasting, "lasting", nil},
		{other, "lasting", shortener.ErrKeyReused},
		{lasting, "new", destination.ErrBlocked},
	} {
		link, _, replayed, err := s.CreateIdempotent(t.Context(), test.r, test.key)
		if !errors.Is(err, test.want) || replayed != (err == nil) || err == nil && !shortener.Equal(link, links[test.key]) {
			t.Errorf("CreateIdempotent of %s with the key %s: %v, replayed %v, %v; want %v, %v", test.r.URL, test.key, link, replayed, err, links[test.key], test.want)
		}
	}
	_, _, _, err := s.CreateIdempotent(t.Context(), short, "new")
	assertInvalid(t, err, "expires_at", "future")
}

// A Citus cluster can lose a link and keep its idempotency key, because the two can be on different nodes. The alias of the
// lost link may then belong to another link. This link must not be the answer to the repeated request.
func TestCreateIdempotentFailsIfStoreLostFirstLink(t *testing.T) {
	t.Parallel()
	alias := "handbook"
	foreign := shortener.Link{Code: alias, URL: "https://go.dev/foreign", Source: shortener.SourceAlias, CreatedAt: service.Stamp(testNow.Add(time.Hour))}
	for name, reply := range map[string]struct {
		link shortener.Link
		err  error
	}{
		"the code has no link":             {shortener.Link{}, shortener.ErrNotFound},
		"the code belongs to another link": {foreign, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &faultyStore{Store: newStore(t)}
			s := startService(t, service.Config{Store: store, Keys: sequence("pool")})
			first := shortener.Request{URL: "https://go.dev/", Alias: &alias, Owner: 1}
			if _, _, _, err := s.CreateIdempotent(t.Context(), first, "key"); err != nil {
				t.Fatal(err)
			}
			asked := 0
			store.lookup = func(context.Context, string) (shortener.Link, error) {
				asked++
				return reply.link, reply.err
			}
			link, _, replayed, err := s.CreateIdempotent(t.Context(), first, "key")
			if _, ok := errors.AsType[*shortener.UnavailableError](err); !ok || replayed || link.Code != "" {
				t.Errorf("the repeated request: link %v, replayed %v, %v; want an UnavailableError without a link", link, replayed, err)
			}
			if asked > 10 {
				t.Errorf("the repeated request caused %d look-ups, want at most 10", asked)
			}
			other := shortener.Request{URL: "https://go.dev/other", Owner: 1}
			if link, _, _, err := s.CreateIdempotent(t.Context(), other, "key"); !errors.Is(err, shortener.ErrKeyReused) || link.Code != "" {
				t.Errorf("a request with other data: link %v, %v; want ErrKeyReused without a link", link, err)
			}
		})
	}
}
