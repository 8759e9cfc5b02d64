package web

import (
	"net/netip"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"
)

// What one client may miss. A person mistypes a code now and then, and an office
// behind one address does so more often; a scan for codes needs thousands a second.
const (
	missesPerSecond = 50
	missBurst       = 200
	scannersKept    = 1 << 16 // clients that are remembered at once; a few MB at most
)

// scanners refuses clients that ask for code after code which no link has. Only
// misses cost, so whoever follows links that exist is never in its way, and a
// client that never missed costs one look into an in-memory table.
type scanners struct {
	// A limiter that nobody used for some seconds is full again and so as good as
	// forgotten, which is why the table needs a bound and no expiry.
	limiters *otter.Cache[netip.Prefix, *rate.Limiter]
}

func newScanners() *scanners {
	return &scanners{limiters: otter.Must(&otter.Options[netip.Prefix, *rate.Limiter]{
		MaximumSize: scannersKept,
		Executor:    func(f func()) { f() }, // no goroutine of its own
	})}
}

// client is whom misses are charged to: an IPv4 address, or the /64 that one
// IPv6 subscriber has at the least (RFC 6177). The zero prefix stands for an
// address that cannot be read.
func client(ip string) netip.Prefix {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return netip.Prefix{}
	}
	addr = addr.Unmap()
	if addr.Is4() {
		return netip.PrefixFrom(addr, 32)
	}
	return netip.PrefixFrom(addr.WithZone(""), 64).Masked()
}

// admit fails with errScanning while the client has used up its misses. It is
// asked before the store is, so what is refused says nothing of the code.
func (s *scanners) admit(who netip.Prefix) error {
	if l, ok := s.limiters.GetIfPresent(who); ok && l.Tokens() < 1 {
		return errScanning
	}
	return nil
}

// missed charges the client one miss.
func (s *scanners) missed(who netip.Prefix) {
	l, ok := s.limiters.GetIfPresent(who)
	if !ok {
		l, _ = s.limiters.SetIfAbsent(who, rate.NewLimiter(missesPerSecond, missBurst))
	}
	// Charged in full, on credit if need be: of those who were admitted together for one
	// token each has to pay.
	l.Reserve()
}
