package visits

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"keypool/internal/promvalue"
	"keypool/internal/upkeep"
)

const (
	browser = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	robot   = "Mozilla/5.0 (compatible; Examplebot/1.0; +https://example.com/bot)"
)

// memory is an Applier that adds up the counts of all parts.
type memory struct {
	rows   map[string]Count
	facets map[FacetRow]Count // the keys are rows whose Count is zero
	last   Part
	fail   error // returned by the next Apply
	lose   bool  // whether the next Apply applies the part before it fails
}

// Register implements [Applier].
func (*memory) Register(context.Context, string) error { return nil }

// Apply implements [Applier].
func (m *memory) Apply(_ context.Context, p Part) error {
	err := m.fail
	m.fail = nil
	if err != nil && !m.lose {
		return err
	}
	if p.Writer == m.last.Writer && p.Sequence == m.last.Sequence {
		return err
	}
	m.last = p
	for _, r := range p.Rows {
		sum := m.rows[r.Code]
		sum.Add(r.Count)
		m.rows[r.Code] = sum
	}
	for _, f := range p.Facets {
		key := f
		key.Count = Count{}
		sum := m.facets[key]
		sum.Add(f.Count)
		m.facets[key] = sum
	}
	return err
}

func newMemory() *memory {
	return &memory{rows: make(map[string]Count), facets: make(map[FacetRow]Count)}
}

func TestCounterCountsHumansAndBotsSeparately(t *testing.T) {
	m := newMemory()
	c := New(Config{Store: m, Now: noon})
	for _, v := range []Visit{
		{Code: "a", Agent: browser}, {Code: "a", Agent: browser}, {Code: "a", Agent: robot}, {Code: "a"},
		{Code: "a", Agent: browser, Prefetch: true}, {Code: "b", Agent: browser},
	} {
		c.Count(v)
	}
	if err := c.FlushNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "rows", m.rows, map[string]Count{"a": {2, 3}, "b": {1, 0}})
	wantEqual(t, "facets", len(m.facets), 0)
}

func TestCounterCountsVisitsByFacet(t *testing.T) {
	m := newMemory()
	c := New(Config{Store: m, Now: noon, Detail: true})
	c.Count(Visit{Code: "a", Agent: browser, Referrer: "https://User:secret@News.Example:8443/item?id=1#x", Country: "de"})
	c.Count(Visit{Code: "a", Agent: browser, Referrer: "https://news.example/other", Country: "XX"})
	c.Count(Visit{Code: "a", Agent: robot, Referrer: "android-app://com.example/"})
	if err := c.FlushNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	day := at(0) / hoursPerDay
	wantEqual(t, "facets", m.facets, map[FacetRow]Count{
		{"a", Referrers, day, "news.example", Count{}}: {2, 0},
		{"a", Countries, day, "DE", Count{}}:           {1, 0},
		{"a", Devices, day, "desktop", Count{}}:        {2, 0},
		{"a", Devices, day, "other", Count{}}:          {0, 1},
	})
}

// A flush that failed, or whose reply was lost, is repeated with the same content. Visits that arrive after the
// first attempt are in the next flush.
func TestFailedFlushIsRepeatedWithSameCounts(t *testing.T) {
	for _, lose := range []bool{false, true} {
		m := newMemory()
		c := New(Config{Store: m, Now: noon})
		began := c.AsOf()
		c.Count(Visit{Code: "a", Agent: browser})
		m.fail, m.lose = errors.New("reset by the test"), lose
		if err := c.FlushNow(t.Context()); err == nil {
			t.Fatal("a failed flush reports no error")
		}
		if !c.AsOf().Equal(began) {
			t.Error("a failed flush changes AsOf")
		}
		c.Count(Visit{Code: "a", Agent: browser})
		if err := c.FlushNow(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "rows after the repetition", m.rows, map[string]Count{"a": {1, 0}})
		if err := c.FlushNow(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "rows after the next flush", m.rows, map[string]Count{"a": {2, 0}})
	}
}

// The database may have stored a part and then forgotten the writer. The counter drops such a part, because a
// repetition could count the visits of the part twice.
func TestCounterDropsFlushPartIfDatabaseForgotWriter(t *testing.T) {
	m := newMemory()
	c := New(Config{Store: m, Now: noon, Detail: true})
	c.Count(Visit{Code: "a", Agent: browser, Country: "DE"})
	m.fail, m.lose = errors.New("reset by the test"), true
	if err := c.FlushNow(t.Context()); err == nil {
		t.Fatal("a failed flush reports no error")
	}
	m.fail, m.lose = ErrForgotten, false
	c.Count(Visit{Code: "b", Agent: browser})
	for range 2 {
		if err := c.FlushNow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wantEqual(t, "rows", m.rows, map[string]Count{"a": {1, 0}, "b": {1, 0}})
	wantEqual(t, "dropped visits", promvalue.Counter(c.Metrics.dropped), 1)
	wantEqual(t, "dropped details", promvalue.Counter(c.Metrics.droppedDetails), 2)
}

// With SQLite, creations wait for the transaction of a part. So the part must be short, even if each visit has another referrer.
func TestFlushDividesFacetsIntoShortParts(t *testing.T) {
	const visits, limit = 10_000, 100
	var largest int
	var sum, facets int64
	c := New(Config{Now: noon, Detail: true, PartFacets: limit, Store: applierFunc(func(_ context.Context, p Part) error {
		largest = max(largest, len(p.Facets))
		for i := range p.Rows {
			sum += p.Rows[i].Sum()
		}
		for i := range p.Facets {
			facets += p.Facets[i].Sum()
		}
		return nil
	})})
	for i := range visits {
		c.Count(Visit{Code: fmt.Sprint(i % 300), Agent: browser, Referrer: fmt.Sprintf("https://%d.example/", i)})
	}
	if err := c.FlushNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if largest > limit || sum != visits || facets != 2*visits { // each visit has a referrer and a device
		t.Errorf("a part has up to %d facets; %d visits and %d facets were stored, want at most %d, %d and %d", largest, sum, facets, limit, visits, 2*visits)
	}
}

// While a part is stored, other processes cannot write to an SQLite file. So a flush must leave them enough time between the
// parts.
func TestFlushLeavesDatabaseToOthersHalfOfTheTime(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		part, want time.Duration // want is the time of the flush of three parts
	}{
		"fast": {100 * time.Millisecond, 500 * time.Millisecond},
		"slow": {2 * time.Second, 6*time.Second + 2*upkeep.MaxPause},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := New(Config{Now: noon, Detail: true, PartFacets: 10, Store: applierFunc(func(context.Context, Part) error {
					time.Sleep(tt.part)
					return nil
				})})
				flush := func(f func() error) time.Duration {
					t.Helper()
					for i := range 29 {
						c.Count(Visit{Code: "a", Agent: browser, Referrer: fmt.Sprintf("https://%d.example/", i)})
					}
					begin := time.Now()
					if err := f(); err != nil {
						t.Fatal(err)
					}
					return time.Since(begin)
				}
				wantEqual(t, "time of a flush", flush(func() error { return c.FlushNow(t.Context()) }), tt.want)
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				if tt.want < FinalTimeout {
					wantEqual(t, "time of the flush at the end", flush(func() error { return c.Run(ended) }), 3*tt.part)
				}
			})
		})
	}
}

func TestCounterDropsVisitsAndDetailsBeyondMaxRows(t *testing.T) {
	m := newMemory()
	c := New(Config{Store: m, Now: noon, MaxRows: 10 * shardCount, Detail: true})
	const visits = 100 * shardCount
	for i := range visits {
		c.Count(Visit{Code: fmt.Sprint(i), Agent: browser, Referrer: "https://" + fmt.Sprint(i) + ".example/"})
	}
	dropped := promvalue.Counter(c.Metrics.dropped)
	if err := c.FlushNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(m.rows) > 10*shardCount || float64(len(m.rows))+dropped != visits {
		t.Errorf("%d rows were stored and %v visits dropped, of %d visits", len(m.rows), dropped, visits)
	}
	if n := promvalue.Counter(c.Metrics.droppedDetails); n == 0 {
		t.Error("no details were dropped")
	}
	c.Count(Visit{Code: "next", Agent: browser})
	if err := c.FlushNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "visits after the flush", m.rows["next"], Count{1, 0})
}

func TestRunFlushesAtIntervalsAndAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := New(Config{Store: m, Flush: time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		c.Count(Visit{Code: "a", Agent: browser})
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		wantEqual(t, "rows after an interval", m.rows, map[string]Count{"a": {1, 0}})
		c.Count(Visit{Code: "a", Agent: browser})
		m.fail = errors.New("a short outage")
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "rows after the end", m.rows, map[string]Count{"a": {2, 0}})
	})
}

// The error mentions the details of visits only if visits are counted by facet.
func TestRunReturnsErrorIfFinalFlushTimesOut(t *testing.T) {
	for detail, want := range map[bool]string{false: "3 visits may be lost: ", true: "3 visits and the details of visits may be lost: "} {
		synctest.Test(t, func(t *testing.T) {
			c := New(Config{Store: applierFunc(func(ctx context.Context, _ Part) error { <-ctx.Done(); return ctx.Err() }), Detail: detail})
			for range 3 {
				c.Count(Visit{Code: "a", Agent: browser})
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			began := time.Now()
			if err := c.Run(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != FinalTimeout || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("Run: %v after %v, want DeadlineExceeded after FinalTimeout and %q", err, time.Since(began), want)
			}
		})
	}
}

// Many goroutines call Count during flushes, some of which fail. No visit may be lost or counted twice.
func TestConcurrentCountsAndFlushesLoseNoVisit(t *testing.T) {
	m := newMemory()
	var n int
	c := New(Config{Store: applierFunc(func(ctx context.Context, p Part) error {
		if n++; n%3 == 0 {
			m.fail, m.lose = errors.New("a cut reply"), n%2 == 0
		}
		return m.Apply(ctx, p)
	})})
	const goroutines, each = 8, 5000
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := range each {
				c.Count(Visit{Code: fmt.Sprint(i % 97), Agent: browser})
			}
		})
	}
	counted := make(chan struct{})
	go func() { wg.Wait(); close(counted) }()
	for running := true; running; {
		select {
		case <-counted:
			running = false
		default:
			_ = c.FlushNow(t.Context()) // every third Apply fails on purpose
		}
	}
	for c.unstored() > 0 {
		_ = c.FlushNow(t.Context()) // every third Apply fails on purpose
	}
	var sum Count
	for _, count := range m.rows {
		sum.Add(count)
	}
	wantEqual(t, "visits", sum, Count{goroutines * each, 0})
}

// This test is not parallel, because AllocsPerRun counts the allocations of the whole process.
func TestVisitCounterAllocatesNoMemoryForVisit(t *testing.T) {
	for _, detail := range []bool{false, true} {
		if n := testing.AllocsPerRun(2000, benchCount(detail)); n != 0 {
			t.Errorf("with detail %v, a visit makes %v allocations", detail, n)
		}
	}
}

func benchCount(detail bool) func() {
	c := New(Config{Store: newMemory(), Detail: detail})
	v := Visit{Code: "aBcDeF", Owner: 1, Agent: browser, Referrer: "https://news.example/item?id=1", Country: "DE"}
	return func() { c.Count(v) }
}

func BenchmarkCount(b *testing.B)       { bench(b, benchCount(false)) }
func BenchmarkCountDetail(b *testing.B) { bench(b, benchCount(true)) }

func bench(b *testing.B, f func()) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
}
