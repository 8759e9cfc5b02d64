package web

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
)

// counted is a program that counts as the real ones do.
type counted struct {
	registry *prometheus.Registry
	requests *metrics
	created  *prometheus.CounterVec
	taken    *prometheus.CounterVec
	refilled prometheus.Counter
	at       time.Time
}

func newCounted() *counted {
	counter := func(name, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name}, []string{label})
	}
	c := &counted{
		registry: prometheus.NewRegistry(), at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		created: counter("shortener_links_created_total", "kind"), taken: counter("kgs_keys_taken_total", "source"),
		refilled: prometheus.NewCounter(prometheus.CounterOpts{Name: "kgs_keys_generated_total"}),
	}
	c.requests = newMetrics(c.registry)
	c.created.WithLabelValues("key")
	c.registry.MustRegister(c.created, c.taken, c.refilled)
	return c
}

// read is the program's counts after a time.
func (c *counted) read(t *testing.T, after time.Duration) counts {
	t.Helper()
	c.at = c.at.Add(after)
	read, err := readCounts(c.registry, c.at)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// Rates are what was counted by the time that really passed.
func TestSampleOfAServer(t *testing.T) {
	t.Parallel()
	c := newCounted()
	c.created.WithLabelValues("key").Add(1000)
	c.requests.answered(routeShorten, http.MethodPost, 201, time.Minute) // long ago: in no latency
	before := c.read(t, 0)
	c.created.WithLabelValues("key").Add(300)
	c.created.WithLabelValues("alias").Add(20)
	c.taken.WithLabelValues("pool").Add(290)
	c.taken.WithLabelValues("random").Add(10)
	c.refilled.Add(5000)
	for range 99 {
		c.requests.visited(nil)
		c.requests.answered(routeCode, http.MethodGet, 302, 40*time.Microsecond)
		c.requests.answered(routeShorten, http.MethodPost, 201, time.Millisecond)
	}
	c.requests.answered(routeShorten, http.MethodPost, 201, 300*time.Millisecond)
	c.requests.answered(routeShorten, http.MethodPost, 503, 9*time.Second)
	c.requests.answered(routeCode, http.MethodHead, 302, 9*time.Second)
	got := newSample(full(), c.read(t, 2*time.Second), []counts{before})

	s := full()
	want := Sample{
		At: time.Date(2026, 1, 2, 3, 4, 7, 0, time.UTC).UnixMilli(), State: "ok", ServingFrom: s.ServingFrom, Breaker: s.Breaker, Epoch: s.Epoch,
		PoolKeys: s.PoolKeys, LocalKeys: s.LocalKeys, RunwaySeconds: s.RunwaySeconds,
		CreatedPerSecond: new(160.0), RedirectsPerSecond: new(49.5), FailedPerSecond: new(0.5),
		TakenPerSecond: map[string]float64{"pool": 145, "random": 5}, RefilledPerSecond: new(2500.0),
		CreateP50: new(0.001), CreateP99: new(0.001), RedirectP50: new(40e-6), RedirectP99: new(40e-6),
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0.05, 1e-6)); diff != "" {
		t.Error(diff)
	}
}

// A worker serves no links, and one program may leave the refilling to others.
func TestSampleLeavesOutWhatIsNotThere(t *testing.T) {
	t.Parallel()
	worker := prometheus.NewRegistry()
	refilled := prometheus.NewCounter(prometheus.CounterOpts{Name: "kgs_keys_generated_total"})
	worker.MustRegister(refilled)
	now := time.Now()
	before, err := readCounts(worker, now)
	if err != nil {
		t.Fatal(err)
	}
	refilled.Add(100)
	after, err := readCounts(worker, now.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	status := Status{State: "ok", KeySource: "redis-pool", CapacityKeys: new(int64(10)), RefilledPerSecond: new(0.0)}
	want := Sample{At: now.Add(time.Second).UnixMilli(), State: "ok", RefilledPerSecond: new(100.0)}
	if diff := cmp.Diff(want, newSample(status, after, []counts{before})); diff != "" {
		t.Errorf("a worker: %s", diff)
	}
	if diff := cmp.Diff([]string{"pool", "runway", "refilled", "state", "epoch"}, status.parts()); diff != "" {
		t.Errorf("the parts of a worker: %s", diff)
	}
	status.RefilledPerSecond, want.RefilledPerSecond = nil, nil
	if diff := cmp.Diff(want, newSample(status, after, []counts{before})); diff != "" {
		t.Errorf("a server without a worker: %s", diff)
	}
	random := Status{State: "ok", KeySource: "random", ServingFrom: new("batch")}
	if diff := cmp.Diff([]string{"created", "create", "taken", "redirects", "redirect", "state", "serving_from"}, random.parts()); diff != "" {
		t.Errorf("the parts of codes by chance: %s", diff)
	}
}

// A latency is forgotten when it is older than the window.
func TestLatenciesAreOfTheWindow(t *testing.T) {
	t.Parallel()
	c := newCounted()
	a := NewAdmin(AdminConfig{Gatherer: c.registry, Status: full})
	s := &sampler{cfg: a.cfg, history: a.history}
	if err := s.begin(c.at); err != nil {
		t.Fatal(err)
	}
	c.requests.answered(routeShorten, http.MethodPost, 201, time.Second)
	for i := 1; i <= 7; i++ {
		if err := s.sample(c.at.Add(time.Duration(i) * sampleInterval)); err != nil {
			t.Fatal(err)
		}
		newest := newest(t, a.history)
		if known := newest.CreateP99 != nil; known != (i <= 5) {
			t.Errorf("%d s later: a p99 %v", i, newest.CreateP99)
		}
	}
}
