package client

import (
	"net/netip"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/internal/quota"
	"keypool/web/internal/problem"
	"keypool/web/internal/reply"
)

func refused() Refused {
	counter := func() prometheus.Counter { return prometheus.NewCounter(prometheus.CounterOpts{Name: "refused"}) }
	return Refused{counter(), counter(), counter()}
}

func testMisses() *Misses {
	return &NewLimiters(Limits{}, refused()).Misses
}

// After a burst of misses, the limiter refuses a client until some time has passed. It
// admits other clients.
func TestMissLimiterRefusesClientAfterBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := testMisses()
		scanner, other := PrefixOf("2001:db8::1"), PrefixOf("192.0.2.1")
		for range defaultMissBurst {
			if err := m.Admit(scanner); err != nil {
				t.Fatal("the limiter refuses the client before the burst is used up")
			}
			m.Count(scanner)
		}
		if m.Admit(scanner) == nil || m.Admit(PrefixOf("2001:db8::2")) == nil {
			t.Error("the limiter admits the scanner or another address in its /64")
		}
		if m.Admit(other) != nil {
			t.Error("the limiter refuses another client")
		}
		time.Sleep(time.Second / defaultMissRate) // with the fake clock of synctest
		if m.Admit(scanner) != nil {
			t.Error("the limiter refuses the client after one more miss is allowed")
		}
	})
}

// Each concurrent miss counts. Therefore guessing over many connections is as slow as over
// one connection.
func TestMissLimiterCountsConcurrentMisses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := testMisses()
		scanner := PrefixOf("192.0.2.1")
		for range defaultMissBurst + defaultMissRate {
			m.Count(scanner)
		}
		time.Sleep(time.Second - time.Second/defaultMissRate)
		if m.Admit(scanner) == nil {
			t.Error("the limiter admits a client that has used more misses than the burst")
		}
		time.Sleep(3 * time.Second / defaultMissRate)
		if m.Admit(scanner) != nil {
			t.Error("the limiter refuses the client after more misses are allowed")
		}
	})
}

// The limiter keeps a limited number of clients. This test is not parallel, because it measures the heap.
func TestMissLimiterLimitsNumberOfClientsInMemory(t *testing.T) {
	const clients = 10_000
	m := &NewLimiters(Limits{Clients: clients}, Refused{}).Misses
	before := heap()
	for i := range 2 * clients {
		m.Count(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32))
	}
	m.clients.CleanUp()
	if n := m.clients.EstimatedSize(); n > clients {
		t.Errorf("the limiter keeps %d clients, want at most %d", n, clients)
	}
	if got := (heap() - before) / clients; got > LimitMemory {
		t.Errorf("%d bytes for each client, want at most %d", got, LimitMemory)
	}
	runtime.KeepAlive(m)
}

// heap returns the size of the live objects.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Without a setting, all addresses except loopback addresses are limited. A setting applies to all
// addresses.
func TestAnonymousRateExemptsLoopbackAddressesByDefault(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		set  *quota.Rate
		ip   string
		want quota.Rate
	}{
		{nil, "127.0.0.1", quota.Off},
		{nil, "127.8.9.10", quota.Off},
		{nil, "::1", quota.Off},
		{nil, "::ffff:127.0.0.1", quota.Off},
		{nil, "192.0.2.1", DefaultAnonymousRate},
		{nil, "2001:db8::1", DefaultAnonymousRate},
		{nil, "10.0.0.1", DefaultAnonymousRate},
		{nil, "", DefaultAnonymousRate},
		{new(quota.Rate(5)), "127.0.0.1", 5},
		{new(quota.Rate(5)), "192.0.2.1", 5},
		{new(quota.Off), "192.0.2.1", quota.Off},
	} {
		l := NewLimiters(Limits{AnonymousRate: tt.set}, refused())
		if got := l.anonymousRate(tt.ip); got != tt.want {
			t.Errorf("with the setting %v, the rate of %q is %v, want %v", tt.set, tt.ip, got, tt.want)
		}
	}
}

// A client regains requests as time passes.
func TestRateLimiterGrantsNewRequestsAsTimePasses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiters(Limits{}, refused()).tokens
		a := creationsAt(2)
		for want := a.burst - 1; want >= 0; want-- {
			if left, err := l.spend(7, a); left != want || err != nil {
				t.Fatalf("spend: %d left, error %v; want %d left", left, err, want)
			}
		}
		_, err := l.spend(7, a)
		if p := problem.Of(err); p.Type != reply.TypePrefix+"rate-limited" || problem.RetrySeconds(err) != 1 {
			t.Errorf("spend with no request left: %+v, retry after %d s", p, problem.RetrySeconds(err))
		}
		if left, err := l.spend(8, a); left != a.burst-1 || err != nil {
			t.Errorf("another client: %d left, error %v", left, err)
		}
		time.Sleep(time.Second)
		if left, err := l.spend(7, a); left != 1 || err != nil {
			t.Errorf("after a second: %d left, error %v; want 1 left of the two regained requests", left, err)
		}
		time.Sleep(time.Hour)
		if left, err := l.spend(7, a); left != a.burst-1 || err != nil {
			t.Errorf("after an hour: %d left, error %v; want one less than the burst", left, err)
		}
	})
}

// Retry-After is long enough that the next attempt succeeds.
func TestRequestSucceedsAfterTimeInRetryAfterHeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &NewLimiters(Limits{MissRate: 1, MissBurst: 1}, refused()).Misses
		client := PrefixOf("192.0.2.1")
		for range 5 {
			m.Count(client)
		}
		err := m.Admit(client)
		if got := problem.RetrySeconds(err); got != 5 {
			t.Fatalf("Retry-After is %d s after 5 misses at 1/s, want 5 s", got)
		}
		time.Sleep(5 * time.Second)
		if err := m.Admit(client); err != nil {
			t.Errorf("the attempt after Retry-After: %v", err)
		}
	})
}
