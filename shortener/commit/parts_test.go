package commit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"keypool/shortener"
)

// While a part does not answer, every creation succeeds with a key of the other part. The keys of the part that does not answer are
// set aside. After the part answers again, creations use these keys. Close returns the rest.
func TestCreationsSetAsideKeysOfStorePartThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	p, h, keys := startHalves(t)
	h.off[0].Store(true)
	for _, code := range mustCreate(t, p, 0, 50) { // the links get the codes n00001, n00003 and so on
		if half(code) == 0 {
			t.Errorf("the code %s belongs to the part that does not answer", code)
		}
	}
	keys.want(t, 99, 50, 0, 0)
	h.off[0].Store(false)
	mustCreate(t, p, 50, 70)
	keys.want(t, 99, 70, 0, 0)
	wantTaken(t, p, 99)
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	keys.want(t, 99, 70, 29, 0)
}

// If the outcome of an Insert is unknown, the group commit repeats the Insert with the same code, in the same part of the
// store.
func TestRepeatedInsertUsesSameCodeAndSamePartOfStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, h, keys := startHalves(t)
		h.insert = func(_ context.Context, _ int, links []shortener.Link) (shortener.Outcome, error) {
			if h.inserts[1] > 1 {
				return 0, nil
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			h.links[links[0].Code] = links[0]
			return 0, errors.New("the reply is lost")
		}
		if code := mustCreate(t, p, 0, 1)[0]; code != "n00001" || len(h.links) != 1 {
			t.Errorf("the link has the code %s, and %d links are stored", code, len(h.links))
		}
		keys.want(t, 1, 1, 0, 0)
	})
}

// After Close, a creation fails with its first key. It does not draw another key.
func TestCreationAfterCloseDrawsOnlyOneKey(t *testing.T) {
	t.Parallel()
	p, _, keys := startHalves(t)
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := create(t, p, 0, nil); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	keys.want(t, 1, 0, 1, 0)
}

// A creation with an idempotency key uses a code that belongs to the part of the idempotency key. If the creation
// finds no such code, it uses another code.
func TestCodeAndIdempotencyKeyOfCreationBelongToSamePart(t *testing.T) {
	t.Parallel()
	p, _, keys := startHalves(t)
	for i := range 20 {
		key := &shortener.IdempotencyKey{Owner: 1, Key: fmt.Sprintf("key%d", i)}
		code, err := create(t, p, i, key)
		if err != nil || half(code) != half(key.Key) {
			t.Errorf("the code %s and the key %s belong to different parts: %v", code, key.Key, err)
		}
	}
	keys.want(t, 20, 20, 0, 0) // later creations have used every key that was set aside
	keys.step = 2
	if code, err := create(t, p, 20, &shortener.IdempotencyKey{Owner: 1, Key: "key21"}); err != nil || half(code) != 0 {
		t.Errorf("without a key of the part of the idempotency key: code %s, error %v", code, err)
	}
	keys.want(t, 20+maxUnfit+1, 21, 0, 0)
}

// If all keys belong to a part that does not answer, a creation sets aside maxSetAside keys, and then fails.
func TestCreationSetsAsideLimitedNumberOfKeys(t *testing.T) {
	t.Parallel()
	p, h, keys := startHalves(t)
	h.off[0].Store(true)
	keys.step = 2
	if _, err := create(t, p, 0, nil); !errors.Is(err, errUnusable) {
		t.Errorf("the creation returned %v, want errUnusable", err)
	}
	keys.want(t, maxSetAside, 0, 0, 0)
}

// If the keys have no batches, the key source gets a higher attempt number after each unusable key. A key is unusable
// if it is in conflict, or if its part does not answer.
func TestAttemptNumberIncreasesAfterEachUnusableKey(t *testing.T) {
	t.Parallel()
	p, h, keys := startHalves(t)
	keys.batchless = true
	h.off[1].Store(true)
	h.links["n00002"] = testLink("n00002")
	if code := mustCreate(t, p, 0, 1)[0]; code != "n00004" {
		t.Errorf("the code is %s", code)
	}
	for i, attempt := range keys.attempts {
		if attempt != i {
			t.Fatalf("the attempts are %v, want 0, 1, 2 and 3", keys.attempts)
		}
	}
}

// After Close has begun, no part accepts links, although Close still waits for commits.
func TestCloseStopsCommitsOfAllStorePartsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, h, _ := startHalves(t)
		open := make(chan struct{})
		h.insert = func(context.Context, int, []shortener.Link) (shortener.Outcome, error) { <-open; return 0, nil }
		aliases := []shortener.Link{testLink("a0"), testLink("a1")}
		var commits sync.WaitGroup
		for i := range aliases {
			commits.Go(func() {
				if outcome, err := p.WithAlias(&aliases[i]); outcome != shortener.Inserted || err != nil {
					t.Errorf("commit before Close: %v, %v; want Inserted", outcome, err)
				}
			})
		}
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- p.Close(t.Context()) }()
		synctest.Wait()
		for _, alias := range []string{"b0", "b1"} {
			link := testLink(alias)
			if _, err := p.WithAlias(&link); !errors.Is(err, errClosed) {
				t.Errorf("commit of %s after Close began: %v, want errClosed", alias, err)
			}
		}
		close(open)
		commits.Wait()
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// If there is no room to set a key aside, the key is settled as lost. After close, a key is settled as returned.
func TestKeyThatCannotBeSetAsideIsSettled(t *testing.T) {
	t.Parallel()
	p, _, keys := startHalves(t)
	key := shortener.Key{Code: "n00001", Batch: keys}
	for range maxAside + 1 {
		p.aside.put(1, key)
	}
	keys.want(t, 0, 0, 0, 1)
	p.aside.close()
	p.aside.put(1, key)
	keys.want(t, 0, 0, maxAside+1, 1)
}
