package web

import (
	"net/netip"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"
)

// Limits of one client. People mistype a code now and then, and people of one office share
// an address; a scan for codes needs thousands of requests a second.
const (
	missesPerSecond = 50
	missBurst       = 200
	clientsKept     = 1 << 16 // limiters in memory at the same time; a few MB at most
)

// missLimiter refuses clients with too many misses. Only misses count: a client that
// follows existing links is never refused, and one without misses costs a lookup in an
// in-memory table. It is safe for concurrent use.
type missLimiter struct {
	// A limiter without use is full again after some seconds, and then equals a new one:
	// the table needs a size limit and no expiry.
	limiters *otter.Cache[netip.Prefix, *rate.Limiter]
}

func newMissLimiter() *missLimiter {
	return &missLimiter{limiters: otter.Must(&otter.Options[netip.Prefix, *rate.Limiter]{
		MaximumSize: clientsKept,
		Executor:    func(f func()) { f() }, // without a goroutine
	})}
}

// clientPrefix returns the prefix that counts as one client: an IPv4 address, or the /64
// that an IPv6 subscriber has at least (RFC 6177). A malformed address has the zero prefix.
func clientPrefix(ip string) netip.Prefix {
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

// admit fails with errTooManyMisses while the client has used up its misses. Callers ask it
// before the lookup, so a refusal does not reveal whether the code exists.
func (m *missLimiter) admit(client netip.Prefix) error {
	if l, ok := m.limiters.GetIfPresent(client); ok && l.Tokens() < 1 {
		return errTooManyMisses
	}
	return nil
}

// count counts one miss against the client.
func (m *missLimiter) count(client netip.Prefix) {
	l, ok := m.limiters.GetIfPresent(client)
	if !ok {
		l, _ = m.limiters.SetIfAbsent(client, rate.NewLimiter(missesPerSecond, missBurst))
	}
	// Reserve takes the token even when none is left: of the requests that one token
	// admitted together, each has to pay.
	l.Reserve()
}
