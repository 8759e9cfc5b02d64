package web

import (
	"net/http"
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// A burst of misses is refused until some time has passed; other clients go on.
func TestScanners(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMissLimiter()
		scanner, other := clientPrefix("2001:db8::1"), clientPrefix("192.0.2.1")
		for range missBurst {
			if err := m.admit(scanner); err != nil {
				t.Fatal("refused before the burst was used up")
			}
			m.count(scanner)
		}
		if m.admit(scanner) == nil || m.admit(clientPrefix("2001:db8::2")) == nil {
			t.Error("the scanner, or its neighbour in the same /64, goes on")
		}
		if m.admit(other) != nil {
			t.Error("another client is refused")
		}
		time.Sleep(time.Second / missesPerSecond) // the bubble's clock; nobody waits
		if m.admit(scanner) != nil {
			t.Error("still refused when a miss is free again")
		}
	})
}

// Misses that were under way together are paid for one by one: to guess on many
// connections at once brings no more than to guess on one.
func TestScannersChargeOnCredit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMissLimiter()
		scanner := clientPrefix("192.0.2.1")
		for range missBurst + missesPerSecond {
			m.count(scanner)
		}
		time.Sleep(time.Second - time.Second/missesPerSecond)
		if m.admit(scanner) == nil {
			t.Error("admitted before what was on credit is paid for")
		}
		time.Sleep(3 * time.Second / missesPerSecond)
		if m.admit(scanner) != nil {
			t.Error("still refused when it is paid for")
		}
	})
}

// However many clients scan, what is kept of them is bounded.
func TestScannersAreBounded(t *testing.T) {
	t.Parallel()
	m := newMissLimiter()
	for i := range 2 * clientsKept {
		m.count(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32))
	}
	m.limiters.CleanUp()
	if n := m.limiters.EstimatedSize(); n > clientsKept {
		t.Errorf("%d are kept", n)
	}
}

func TestScanIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *PublicConfig) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} })
	a := s.shorten(t, `{"url":"https://go.dev"}`)
	// The negative control: as many requests for a code that exists are all granted.
	for range 2 * missBurst {
		if r := s.do(t, http.MethodGet, "/"+a.Code, "", "X-Forwarded-For", "192.0.2.1"); r.status != http.StatusFound {
			t.Fatalf("status %d", r.status)
		}
	}
	refused := s.scan(t, "192.0.2.1")
	if refused.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", refused.header.Get("Retry-After"))
	}
	if r := s.do(t, http.MethodGet, "/"+a.Code, "", "X-Forwarded-For", "192.0.2.2"); r.status != http.StatusFound {
		t.Errorf("another client: status %d", r.status)
	}
}

// scan asks for codes at random until it is refused.
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
	t.Fatal("a scan was never refused")
	return response{}
}
