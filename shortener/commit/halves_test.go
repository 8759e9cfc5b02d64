package commit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/shortener"
)

// halves is a store in memory with two to four parts. If there are two parts, part 0 has the codes with an even last
// digit, and part 1 has the codes with an odd last digit.
type halves struct {
	shortener.Store
	parts int            // 2 to 4
	off   [4]atomic.Bool // whether PartOf reports that the part does not answer
	// insert is called at the beginning of each Insert with the links, which belong to one part. If the function returns an
	// outcome other than 0, this outcome is the outcome of the first link.
	insert func(ctx context.Context, part int, links []shortener.Link) (shortener.Outcome, error)

	mu      sync.Mutex
	links   map[string]shortener.Link
	inserts [4]int // number of Inserts, by part
}

// half returns the part of a code if there are two parts.
func half(code string) int { return int(code[len(code)-1]) % 2 }

func (h *halves) part(code string) int { return int(code[len(code)-1]-'0') % h.parts }

func (h *halves) PartOf(code string) (part int, answers bool) {
	part = h.part(code)
	return part, !h.off[part].Load()
}

func (h *halves) PartOfRequest(key string) (part int, answers bool) { return h.PartOf(key) }

func (h *halves) Answers(fits func(part int) bool) bool {
	for part := range h.parts {
		if !h.off[part].Load() && (fits == nil || fits(part)) {
			return true
		}
	}
	return false
}

func (h *halves) Writers() int { return 2 }

func (h *halves) Insert(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
	part := h.part(links[0].Code)
	for _, l := range links {
		if h.part(l.Code) != part {
			return nil, errors.New("an Insert with links of two parts")
		}
	}
	h.mu.Lock()
	h.inserts[part]++
	h.mu.Unlock()
	outcomes := make([]shortener.Outcome, len(links))
	if h.insert != nil {
		outcome, err := h.insert(ctx, part, links)
		if err != nil {
			return nil, err
		}
		outcomes[0] = outcome
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, l := range links {
		switch stored, found := h.links[l.Code]; {
		case outcomes[i] != 0:
		case found && shortener.Equal(stored, l):
			outcomes[i] = shortener.Present
		case found:
			outcomes[i] = shortener.Conflict
		default:
			h.links[l.Code], outcomes[i] = l, shortener.Inserted
		}
	}
	return outcomes, nil
}

// counted supplies keys whose codes consist of the letter n and a number of five digits, such as n00001. The numbers
// are the multiples of step. The type counts what happened to the keys.
type counted struct {
	step      int
	batchless bool // whether the keys have no batch, like the keys of the key source hash

	mu                   sync.Mutex
	drawn                int
	attempts             []int
	used, returned, lost int
}

func (c *counted) Next(_ context.Context, _ string, attempt int) (shortener.Key, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drawn++
	c.attempts = append(c.attempts, attempt)
	key := shortener.Key{Code: fmt.Sprintf("n%05d", c.drawn*c.step), Source: "pool"}
	if !c.batchless {
		key.Batch = c
	}
	return key, nil
}

func (c *counted) count(n *int)    { c.mu.Lock(); defer c.mu.Unlock(); *n++ }
func (c *counted) Used()           { c.count(&c.used) }
func (c *counted) Returned(string) { c.count(&c.returned) }
func (c *counted) Lost(string)     { c.count(&c.lost) }

// want checks the numbers of keys that were drawn, used, returned and lost.
func (c *counted) want(t *testing.T, drawn, used, returned, lost int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if got, want := [4]int{c.drawn, c.used, c.returned, c.lost}, [4]int{drawn, used, returned, lost}; got != want {
		t.Errorf("keys drawn, used, returned, lost: %v, want %v", got, want)
	}
}

// startHalves starts the commits to an empty store with two parts.
func startHalves(t *testing.T) (*Parts, *halves, *counted) {
	t.Helper()
	h, keys := &halves{parts: 2, links: make(map[string]shortener.Link)}, &counted{step: 1}
	p := New(Config{Store: h, Placement: h, Keys: keys, Metrics: NewMetrics(prometheus.NewRegistry())})
	t.Cleanup(func() {
		if err := p.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return p, h, keys
}

// create creates a link and returns its code. Links with different numbers have different URLs. The parameter key is
// the idempotency key of the creation, or nil.
func create(t *testing.T, p *Parts, number int, key *shortener.IdempotencyKey) (code string, err error) {
	t.Helper()
	link := shortener.Link{URL: fmt.Sprintf("https://example.com/%d", number), IdempotencyKey: key}
	err = p.WithKey(t.Context(), &link)
	return link.Code, err
}

func mustCreate(t *testing.T, p *Parts, from, to int) (codes []string) {
	t.Helper()
	for i := from; i < to; i++ {
		code, err := create(t, p, i, nil)
		if err != nil {
			t.Fatalf("creation %d: %v", i, err)
		}
		codes = append(codes, code)
	}
	return codes
}

// wantTaken checks the metric of the keys taken.
func wantTaken(t *testing.T, p *Parts, want float64) {
	t.Helper()
	if got := p.Metrics.KeysTaken()["pool"]; got != want {
		t.Errorf("%v keys are counted as taken, want %v", got, want)
	}
}
