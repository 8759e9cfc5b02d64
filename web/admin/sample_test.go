package admin

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
)

// counted holds the counts of a simulated program that serves links and refills a pool.
type counted struct {
	created, redirects, failed, refilled float64
	taken                                map[string]float64
	create, redirect                     prometheus.Histogram
	at                                   time.Time
}

func newCounted() *counted {
	return &counted{
		at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), taken: make(map[string]float64),
		create: newHistogram(), redirect: newHistogram(),
	}
}

func newHistogram() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", NativeHistogramBucketFactor: 1.1})
}

func (c *counted) counters() Counters {
	value := func(v *float64) func() float64 { return func() float64 { return *v } }
	return Counters{
		Created: value(&c.created), Redirects: value(&c.redirects), Failed: value(&c.failed), Refilled: value(&c.refilled),
		Taken: func() map[string]float64 { return maps.Clone(c.taken) }, Create: c.create, Redirect: c.redirect,
	}
}

// read reads the counts of the program after the given time has passed.
func (c *counted) read(after time.Duration) counts {
	c.at = c.at.Add(after)
	counters := c.counters()
	return counters.read(c.at)
}

// A rate is the increase of a count divided by the elapsed time.
func TestSampleContainsRatesOfServer(t *testing.T) {
	t.Parallel()
	c := newCounted()
	c.created = 1000
	c.create.Observe(60) // before the window, so no latency includes it
	before := c.read(0)
	c.created += 320
	c.taken["pool"] += 290
	c.taken["random"] += 10
	c.refilled += 5000
	c.redirects += 99
	c.failed++
	for range 99 {
		c.redirect.Observe(40e-6)
		c.create.Observe(1e-3)
	}
	c.create.Observe(0.3)
	got := newSample(full(), c.read(2*time.Second), []counts{before})

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

// A worker serves no links, and a server may have no worker.
func TestSampleOmitsPartsThatProgramLacks(t *testing.T) {
	t.Parallel()
	refilled := 0.0
	worker := Counters{Refilled: func() float64 { return refilled }}
	now := time.Now()
	before := worker.read(now)
	refilled = 100
	after := worker.read(now.Add(time.Second))
	status := Status{State: "ok", KeySource: "redis-pool", CapacityKeys: new(int64(10)), RefilledPerSecond: new(0.0)}
	want := Sample{At: now.Add(time.Second).UnixMilli(), State: "ok", RefilledPerSecond: new(100.0)}
	if diff := cmp.Diff(want, newSample(status, after, []counts{before})); diff != "" {
		t.Errorf("the sample of a worker: %s", diff)
	}
	if diff := cmp.Diff([]string{"pool", "runway", "refilled", "state", "epoch"}, status.parts()); diff != "" {
		t.Errorf("the parts of a worker: %s", diff)
	}
	status.RefilledPerSecond, want.RefilledPerSecond = nil, nil
	if diff := cmp.Diff(want, newSample(status, after, []counts{before})); diff != "" {
		t.Errorf("the sample of a server without a worker: %s", diff)
	}
	random := Status{State: "ok", KeySource: "random", ServingFrom: new("batch")}
	if diff := cmp.Diff([]string{"created", "create", "taken", "redirects", "redirect", "state", "serving_from"}, random.parts()); diff != "" {
		t.Errorf("the parts of a server with random codes: %s", diff)
	}
}

// No latency includes an observation that is older than the window.
func TestLatenciesIgnoreObservationsBeforeWindow(t *testing.T) {
	t.Parallel()
	c := newCounted()
	h := New(Config{Gatherer: prometheus.NewRegistry(), Counters: c.counters(), Status: full})
	s := &sampler{cfg: h.cfg, history: h.history}
	s.begin(c.at)
	c.create.Observe(1)
	for i := 1; i <= 7; i++ {
		if err := s.sample(c.at.Add(time.Duration(i) * sampleInterval)); err != nil {
			t.Fatal(err)
		}
		newest := newest(t, h.history)
		if known := newest.CreateP99 != nil; known != (i <= 5) {
			t.Errorf("%d s later the p99 is %v", i, newest.CreateP99)
		}
	}
}
