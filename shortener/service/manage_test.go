package service_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"keypool/internal/slots"
	"keypool/shortener"
	"keypool/shortener/service"
	"keypool/shortener/storetest"
)

// While Change reads a link, another server deletes the link. Even if Change has no effect, it must not return the link that
// it read, and this link must not enter the cache.
func TestChangeWithoutEffectNoticesDeletionByAnotherServer(t *testing.T) {
	t.Parallel()
	store := &faultyStore{Store: newStore(t)}
	s := startService(t, service.Config{Store: store, Keys: sequence("pool")})
	link := shortener.Link{
		Code: "docs", URL: "https://go.dev/", Source: shortener.SourceAlias, CreatedAt: testNow, Details: &shortener.Details{Owner: 1, Version: 1},
	}
	if _, err := store.Insert(t.Context(), []shortener.Link{link}); err != nil {
		t.Fatal(err)
	}
	store.lookup = func(ctx context.Context, code string) (shortener.Link, error) {
		read, err := store.Store.Lookup(ctx, code)
		return read, errors.Join(err, service.Delete(ctx, store.Store, code, testNow))
	}
	if got, err := s.Change(t.Context(), service.Actor{Token: 1}, "docs", shortener.Patch{}); !errors.Is(err, shortener.ErrGone) {
		t.Fatalf("the change without an effect: version %d, error %v, want ErrGone", got.Version(), err)
	}
	store.lookup = nil
	if got, err := s.Resolve(t.Context(), "docs"); !errors.Is(err, shortener.ErrGone) {
		t.Errorf("the deleted link resolves to %q, error %v", got.URL, err)
	}
}

func TestRepeatedDeleteDoesNotChangeTombstone(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	link := storetest.Link("link")
	storetest.Insert(t, store, link, storetest.Link("other"))
	for i := range 2 {
		if err := service.Delete(t.Context(), store, link.Code, storetest.Moment().Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	storetest.WantLink(t, store, storetest.Deleted(link, storetest.Moment()))
	storetest.WantLink(t, store, storetest.Link("other"))
	if err := service.Delete(t.Context(), store, "unknown", testNow); !errors.Is(err, shortener.ErrNotFound) {
		t.Errorf("Delete of an unknown code: %v, want ErrNotFound", err)
	}
}

// One token cannot occupy all slots for changes. So its changes neither delay the changes of other tokens nor occupy all
// connections to the database.
func TestOneTokenCannotOccupyAllChangeSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		link := storetest.Link("code")
		store := &faultyStore{Store: newStore(t), lookup: func(context.Context, string) (shortener.Link, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			time.Sleep(1500 * time.Millisecond)
			link := link
			link.Details = &shortener.Details{Version: 1}
			return link, nil
		}}
		storetest.Insert(t, store, link)
		s := startService(t, service.Config{Store: store, Keys: sequence("pool")})
		errs := make(chan error, 100)
		for range cap(errs) {
			go func() {
				_, err := s.Change(context.Background(), service.Actor{Token: 1, Admin: true}, "code", shortener.Patch{})
				errs <- err
			}()
		}
		synctest.Wait()
		if _, err := s.Change(t.Context(), service.Actor{Token: 2, Admin: true}, "code", shortener.Patch{}); err != nil {
			t.Errorf("the change of another token: %v", err)
		}
		changes := 0
		for range cap(errs) {
			if err := <-errs; err == nil {
				changes++
			} else if assertUnavailable(t, err, context.DeadlineExceeded); !errors.Is(err, slots.ErrBusy) {
				t.Errorf("the error %v is not ErrBusy", err)
			}
		}
		if changes != 2 || most.Load() != 3 {
			t.Errorf("%d changes of the token succeeded, want 2; %d changes of all tokens ran at the same time, want 3", changes, most.Load())
		}
	})
}
