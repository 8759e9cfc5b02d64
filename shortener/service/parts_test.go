package service_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"keypool/shortener"
	"keypool/shortener/service"
	"keypool/shortener/sqlitestore"
	"keypool/shortener/storetest"
)

// halves is a store with two parts, one for codes with an even last digit and one for the others. A part can be switched off.
type halves struct {
	shortener.Store
	off [2]atomic.Bool // the part does not answer, and the store knows it
	cut [2]atomic.Bool // the part does not answer
}

func half(code string) int { return int(code[len(code)-1]) % 2 }

func (h *halves) PartOf(code string) (part int, answers bool) {
	return half(code), !h.off[half(code)].Load()
}

func (h *halves) PartOfRequest(key string) (part int, answers bool) { return h.PartOf(key) }

func (h *halves) Answers() bool { return !h.off[0].Load() || !h.off[1].Load() }

func (h *halves) Insert(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
	for _, l := range links {
		if half(l.Code) != half(links[0].Code) {
			return nil, errors.New("an Insert with links of two parts")
		}
	}
	if h.cut[half(links[0].Code)].Load() {
		return nil, fmt.Errorf("%w: the part is off", shortener.ErrNotWritten)
	}
	return h.Store.Insert(ctx, links)
}

// counting supplies the codes n00000, n00001 and so on, and records what happened to them.
type counting struct {
	mu             sync.Mutex
	next           int
	used, returned int
	lost           int
}

func (c *counting) Next(context.Context, string, int) (shortener.Key, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	return shortener.Key{Code: fmt.Sprintf("n%05d", c.next), Source: "pool", Batch: c}, nil
}

func (c *counting) count(n *int)     { c.mu.Lock(); defer c.mu.Unlock(); *n++ }
func (c *counting) Used()            { c.count(&c.used) }
func (c *counting) Returned(string)  { c.count(&c.returned) }
func (c *counting) Lost(string)      { c.count(&c.lost) }
func (c *counting) drawn() (all int) { c.mu.Lock(); defer c.mu.Unlock(); return c.next }
func (c *counting) settled() [3]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return [3]int{c.used, c.returned, c.lost}
}
func request(i int) shortener.Request {
	return shortener.Request{URL: fmt.Sprintf("https://example.com/%d", i)}
}

// newHalves returns a service on a store with two parts.
func newHalves(t *testing.T) (*service.Service, *halves, *counting) {
	t.Helper()
	h, keys := &halves{Store: sqlitestore.New(storetest.SQLite(t), storetest.Plain())}, &counting{}
	s := service.New(service.Config{Store: h, Placement: h, Keys: keys})
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s, h, keys
}

func create(t *testing.T, s *service.Service, from, to int) (codes []string) {
	t.Helper()
	for i := from; i < to; i++ {
		link, _, err := s.Create(t.Context(), request(i))
		if err != nil {
			t.Fatalf("creation %d: %v", i, err)
		}
		codes = append(codes, link.Code)
	}
	return codes
}

// While a part does not answer, every creation succeeds with keys of the other part. The keys of the part are used when it answers
// again, and those that are left are returned.
func TestKeysOfAPartThatDoesNotAnswerAreSetAside(t *testing.T) {
	t.Parallel()
	s, h, keys := newHalves(t)
	h.off[0].Store(true)
	for _, code := range create(t, s, 0, 50) {
		if half(code) == 0 {
			t.Errorf("the code %s belongs to the part that does not answer", code)
		}
	}
	if drawn := keys.drawn(); drawn < 98 || keys.settled() != [3]int{50, 0, 0} {
		t.Errorf("%d keys were drawn for 50 links; used, returned, lost: %v", drawn, keys.settled())
	}
	h.off[0].Store(false)
	drawn := keys.drawn()
	create(t, s, 50, 70)
	if keys.drawn() != drawn {
		t.Errorf("%d new keys were drawn although keys were set aside", keys.drawn()-drawn)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got, want := keys.settled(), [3]int{70, drawn - 70, 0}; got != want {
		t.Errorf("used, returned, lost: %v, want %v", got, want)
	}
}

// A creation whose link was not written uses a key of another part, although the store does not yet know that the part is down.
func TestCreationUsesAnotherPart(t *testing.T) {
	t.Parallel()
	s, h, _ := newHalves(t)
	h.cut[1].Store(true)
	create(t, s, 0, 20)
}

// A creation with an idempotency key uses a code of the part of this key.
func TestIdempotencyKeyAndCodeAreInOnePart(t *testing.T) {
	t.Parallel()
	s, _, _ := newHalves(t)
	for i := range 20 {
		key := fmt.Sprintf("key%d", i)
		link, _, _, err := s.CreateOnce(t.Context(), request(i), key)
		if err != nil {
			t.Fatal(err)
		}
		if half(link.Code) != half(key) {
			t.Errorf("the code %s and the key %s belong to different parts", link.Code, key)
		}
	}
}

func TestUnavailableParts(t *testing.T) {
	t.Parallel()
	s, h, keys := newHalves(t)
	h.off[1].Store(true)
	var unavailable *shortener.UnavailableError
	alias := "alias1"
	r := request(1)
	r.Alias = &alias
	if _, _, err := s.Create(t.Context(), r); !errors.As(err, &unavailable) {
		t.Errorf("an alias of a part that does not answer: %v", err)
	}
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("the service is not ready: %v", err)
	}
	h.off[0].Store(true)
	if _, _, err := s.Create(t.Context(), request(2)); !errors.As(err, &unavailable) {
		t.Errorf("a creation without any part: %v", err)
	}
	if keys.drawn() != 0 {
		t.Errorf("%d keys were drawn although no part answers", keys.drawn())
	}
}
