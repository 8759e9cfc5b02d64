package commit

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

	"keypool/internal/promvalue"
	"keypool/shortener"
)

// halves is a store in memory with two parts. Part 0 has the codes with an even last digit, and part 1 has the others.
type halves struct {
	shortener.Store
	parts int            // 2 to 4
	off   [4]atomic.Bool // whether PartOf reports that the part does not answer
	// insert is called at the beginning of each Insert with the links, which belong to one part. If it returns an outcome, this is
	// the outcome of the first link.
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

// counted supplies keys whose codes are n and a number of five digits, such as n00001. The numbers are the multiples of
// step. The type counts what happened to the keys.
type counted struct {
	step      int
	batchless bool // whether the keys have no batch, like those of the key source hash

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

// create creates a link with a key and returns its code. Links with different numbers have different URLs.
func create(t *testing.T, p *Parts, number int, once *shortener.Once) (code string, err error) {
	t.Helper()
	link := shortener.Link{URL: fmt.Sprintf("https://example.com/%d", number), Once: once}
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

// While a part does not answer, every creation succeeds with a key of the other part. The keys of the part that does not answer are
// set aside. After the part answers again, creations use these keys. Close returns the rest.
func TestKeysOfAStorePartThatDoesNotAnswerAreSetAside(t *testing.T) {
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

// A part may be down before the store detects it. Then a creation whose link was not written uses a key of another
// part, and later creations avoid the part for failureMemory. The metrics count each key once.
func TestCreationsMoveToAnotherPartOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, h, keys := startHalves(t)
		var down atomic.Bool
		down.Store(true)
		h.insert = func(_ context.Context, part int, _ []shortener.Link) (shortener.Outcome, error) {
			if part == 1 && down.Load() {
				return 0, fmt.Errorf("%w: connection refused", shortener.ErrNotWritten)
			}
			return 0, nil
		}
		mustCreate(t, p, 0, 10)
		if h.inserts[1] > 2 { // part 0 counts as good only after its first Insert
			t.Errorf("%d Inserts went to the part that is down, want at most 2", h.inserts[1])
		}
		drawn := keys.drawn
		time.Sleep(failureMemory + time.Millisecond)
		down.Store(false)
		mustCreate(t, p, 10, 15) // these creations use keys that were set aside
		keys.want(t, drawn, 15, 0, 0)
		wantTaken(t, p, float64(drawn))
		if conflicts := promvalue.ByLabel(p.Metrics.keyConflicts)["pool"]; conflicts != 0 {
			t.Errorf("%v conflicts are counted", conflicts)
		}
	})
}

// New links avoid a part in which an Insert is slow, but not if all parts are slow.
func TestCreationsAvoidSlowPartOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, h, _ := startHalves(t)
		var delay [2]atomic.Int64
		h.insert = func(_ context.Context, part int, _ []shortener.Link) (shortener.Outcome, error) {
			time.Sleep(time.Duration(delay[part].Load()))
			return 0, nil
		}
		mustCreate(t, p, 0, 2) // one link in each part
		delay[1].Store(int64(500 * time.Millisecond))
		var waiting sync.WaitGroup
		for i := range 4 { // two of these links go to part 1
			waiting.Go(func() {
				if _, err := create(t, p, 100+i, nil); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(slowInsert + time.Millisecond)
		began := time.Now()
		for _, code := range mustCreate(t, p, 200, 240) {
			if half(code) == 1 {
				t.Errorf("the link %s was created in the slow part", code)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("40 creations beside a slow part took %v", took)
		}
		waiting.Wait()
		before := h.inserts
		delay[0].Store(int64(200 * time.Millisecond))
		delay[1].Store(int64(200 * time.Millisecond))
		for i := range 8 {
			waiting.Go(func() {
				time.Sleep(time.Duration(i) * 50 * time.Millisecond)
				if _, err := create(t, p, 300+i, nil); err != nil {
					t.Error(err)
				}
			})
		}
		waiting.Wait()
		if h.inserts[0] < before[0]+2 || h.inserts[1] < before[1]+2 {
			t.Errorf("Inserts by part: %v, then %v; want both parts to get links while both are slow", before, h.inserts)
		}
	})
}

// A part that does not answer is not better than one that fails. So creations use the parts that fail, and set no keys of them aside.
func TestCreationsDoNotAvoidBadPartsIfGoodPartDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, h, keys := startHalves(t)
		h.parts = 3
		mustCreate(t, p, 0, 9)
		h.off[2].Store(true) // its last Insert succeeded
		var failing atomic.Bool
		failing.Store(true)
		h.insert = func(context.Context, int, []shortener.Link) (shortener.Outcome, error) {
			if failing.Load() {
				return 0, fmt.Errorf("%w: the disk is full", shortener.ErrNotWritten)
			}
			return 0, nil
		}
		for i := range 3 {
			if _, err := create(t, p, 10+i, nil); !errors.Is(err, shortener.ErrNotWritten) {
				t.Errorf("a creation while every part fails: %v, want ErrNotWritten", err)
			}
		}
		if h.inserts[0]+h.inserts[1] > 6+3*2 {
			t.Errorf("Inserts by part: %v; want each creation to try each of two parts once", h.inserts)
		}
		failing.Store(false)
		drawn := keys.drawn
		mustCreate(t, p, 20, 26)
		if extra := keys.drawn - drawn; extra > 12 {
			t.Errorf("6 creations drew %d keys, want at most 12", extra)
		}
	})
}

// If an Insert of a bad part is running, it tests the part for all creations.
func TestOneInsertTestsPartThatFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := health{origin: time.Now()}
		h.begin()(errors.New("connection reset"))
		if h.good() || !h.bad() {
			t.Error("a part whose Insert failed is good")
		}
		time.Sleep(failureMemory + time.Millisecond)
		if h.good() || h.bad() {
			t.Error("after failureMemory, a part is still bad, or counts as good before an Insert succeeded")
		}
		ended := h.begin()
		time.Sleep(time.Millisecond)
		if !h.bad() {
			t.Error("the part is not bad while an Insert tests it")
		}
		ended(nil)
		if !h.good() || h.bad() {
			t.Error("the part is not good after an Insert succeeded")
		}
	})
}

// After moveTimeout, a creation fails instead of moving to another part.
func TestCreationFailsInsteadOfMovingAfterMoveTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, h, _ := startHalves(t)
		h.parts = 4
		h.insert = func(context.Context, int, []shortener.Link) (shortener.Outcome, error) {
			time.Sleep(800 * time.Millisecond)
			return 0, shortener.ErrNotWritten
		}
		began := time.Now()
		if _, err := create(t, p, 0, nil); !errors.Is(err, shortener.ErrNotWritten) {
			t.Error(err)
		}
		if took := time.Since(began); took != 2400*time.Millisecond {
			t.Errorf("the creation took %v, want three commits of 0.8 s each", took)
		}
	})
}

// No other part gets the link if the commit would fail in each part, if the idempotency key belongs to the first part,
// or if the first part may have stored the link.
func TestCreationStaysInItsStorePartIfAMoveCannotHelp(t *testing.T) {
	t.Parallel()
	once := &shortener.Once{Owner: 1, Key: "key1"} // belongs to the same part as the first key
	unknown := errors.New("connection reset")
	for name, test := range map[string]struct {
		once     *shortener.Once
		replies  []any // replies of Insert: outcomes or errors; the last reply is repeated
		returned int
	}{
		"repeated":                  {once, []any{shortener.Repeated}, 1},
		"busy":                      {once, []any{shortener.Busy}, 1},
		"bound to the part":         {once, []any{shortener.ErrNotWritten}, 1},
		"refused":                   {nil, []any{fmt.Errorf("%w: %w", shortener.ErrNotWritten, shortener.ErrRefused)}, 1},
		"another order":             {nil, []any{fmt.Errorf("%w: %w", shortener.ErrNotWritten, shortener.ErrOtherOrder)}, 1},
		"unknown, then not written": {nil, []any{unknown, shortener.ErrNotWritten}, 0},
		"unknown, then busy":        {once, []any{unknown, shortener.Busy}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, h, keys := startHalves(t)
				h.insert = func(context.Context, int, []shortener.Link) (shortener.Outcome, error) {
					reply := test.replies[0]
					test.replies = test.replies[min(1, len(test.replies)-1):]
					if err, failed := reply.(error); failed {
						return 0, err
					}
					return reply.(shortener.Outcome), nil
				}
				if _, err := create(t, p, 0, test.once); err == nil {
					t.Error("the creation succeeded")
				}
				if h.inserts[0] != 0 {
					t.Error("the other part got the link")
				}
				if test.returned == 1 && h.inserts[1] != 1 { // the group commit repeats only an Insert of unknown outcome
					t.Errorf("the part got the link %d times, want once", h.inserts[1])
				}
				keys.want(t, 1, 0, test.returned, 1-test.returned)
			})
		})
	}
}

// If the outcome of an Insert is unknown, the group commit repeats the Insert with the same code, in the same part of the
// store.
func TestRepeatedInsertKeepsCodeAndStorePart(t *testing.T) {
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

// After Close, a creation fails with its first key. It does not draw another one.
func TestCreationDoesNotMoveAfterClose(t *testing.T) {
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

// A creation with an idempotency key uses a code of the part of this key. If the creation finds no such code, it uses
// another code.
func TestIdempotencyKeyAndCodeAreInOneStorePart(t *testing.T) {
	t.Parallel()
	p, _, keys := startHalves(t)
	for i := range 20 {
		once := &shortener.Once{Owner: 1, Key: fmt.Sprintf("key%d", i)}
		code, err := create(t, p, i, once)
		if err != nil || half(code) != half(once.Key) {
			t.Errorf("the code %s and the key %s belong to different parts: %v", code, once.Key, err)
		}
	}
	keys.want(t, 20, 20, 0, 0) // two creations use the keys of each pair of consecutive keys
	keys.step = 2
	if code, err := create(t, p, 20, &shortener.Once{Owner: 1, Key: "key21"}); err != nil || half(code) != 0 {
		t.Errorf("without a key of the part of the idempotency key: code %s, error %v", code, err)
	}
	keys.want(t, 20+maxUnfit+1, 21, 0, 0)
}

// If all keys belong to a part that does not answer, a creation sets aside a limited number of them, and then fails.
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
func TestAttemptNumberIncreasesAfterEachUnusableHashKey(t *testing.T) {
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

// After Close began, no part accepts links, even while Close still waits for commits.
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
