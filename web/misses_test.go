package web

import (
	"net/http"
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// After a burst of misses, the limiter refuses a client until some time has passed. It
// admits other clients.
func TestMissLimiterRefusesAfterBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMissLimiter()
		scanner, other := clientPrefix("2001:db8::1"), clientPrefix("192.0.2.1")
		for range missBurst {
			if err := m.admit(scanner); err != nil {
				t.Fatal("the limiter refuses the client before the burst is used up")
			}
			m.count(scanner)
		}
		if m.admit(scanner) == nil || m.admit(clientPrefix("2001:db8::2")) == nil {
			t.Error("the limiter admits the scanner or another address in its /64")
		}
		if m.admit(other) != nil {
			t.Error("the limiter refuses another client")
		}
		time.Sleep(time.Second / missesPerSecond) // with the fake clock of synctest
		if m.admit(scanner) != nil {
			t.Error("the limiter refuses the client after one more miss is allowed")
		}
	})
}

// Each concurrent miss counts. Therefore guessing over many connections is as slow as over
// one connection.
func TestMissLimiterCountsConcurrentMisses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMissLimiter()
		scanner := clientPrefix("192.0.2.1")
		for range missBurst + missesPerSecond {
			m.count(scanner)
		}
		time.Sleep(time.Second - time.Second/missesPerSecond)
		if m.admit(scanner) == nil {
			t.Error("the limiter admits a client that has used more misses than the burst")
		}
		time.Sleep(3 * time.Second / missesPerSecond)
		if m.admit(scanner) != nil {
			t.Error("the limiter refuses the client after more misses are allowed")
		}
	})
}

// The limiter keeps a limited number of clients.
func TestMissLimiterKeepsLimitedNumberOfClients(t *testing.T) {
	t.Parallel()
	m := newMissLimiter()
	for i := range 2 * clientsKept {
		m.count(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32))
	}
	m.limiters.CleanUp()
	if n := m.limiters.EstimatedSize(); n > clientsKept {
		t.Errorf("the limiter keeps %d clients", n)
	}
}

func TestMissLimiterRefusesScans(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *PublicConfig) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} })
	a := s.shorten(t, `{"url":"https://go.dev"}`)
	// This is the negative control: the same number of requests for an existing code succeed.
	for range 2 * missBurst {
		if r := s.do(t, http.MethodGet, "/"+a.Code, "", "X-Forwarded-For", "192.0.2.1"); r.status != http.StatusFound {
			t.Fatalf("status %d", r.status)
		}
	}
	refused := s.scan(t, "192.0.2.1")
	if refused.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q, want 1", refused.header.Get("Retry-After"))
	}
	if r := s.do(t, http.MethodGet, "/"+a.Code, "", "X-Forwarded-For", "192.0.2.2"); r.status != http.StatusFound {
		t.Errorf("the answer to another client has status %d", r.status)
	}
}

// scan requests unknown codes until the service refuses.
func (s *site) scan(t *testing.T, from string) response {
	t.Helper()
	for i := range 100 * missBurst {
		switch r := s.do(t, http.MethodGet, "/no"+strconv.Itoa(i), "", "X-Forwarded-For", from); r.status {
		case http.StatusTooManyRequests:
			return r
		case http.StatusNotFound:
		default:
			t.Fatalf("status %d", r.status)
		}
	}
	t.Fatal("the service refused no request of the scan")
	return response{}
}
