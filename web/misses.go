package web

import (
	"net/netip"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"
)

// Limits of one client. They allow for typing errors and for many people who share one
// address. A scan for codes needs thousands of requests per second.
const (
	missesPerSecond = 50
	missBurst       = 200
	clientsKept     = 1 << 16 // limiters in memory; they take a few MB at most
)

// missLimiter refuses clients with too many misses. Only misses count, so a client that
// follows existing links is never refused. A request of a client without misses costs one
// lookup in memory. missLimiter is safe for concurrent use.
type missLimiter struct {
	// An unused limiter has all its tokens again after a few seconds, and then equals a new
	// limiter. Therefore the table needs a size limit but no expiry.
	limiters *otter.Cache[netip.Prefix, *rate.Limiter]
}

func newMissLimiter() *missLimiter {
	return &missLimiter{limiters: otter.Must(&otter.Options[netip.Prefix, *rate.Limiter]{
		MaximumSize: clientsKept,
		Executor:    func(f func()) { f() }, // run maintenance in the calling goroutine
	})}
}

// clientPrefix returns the prefix of the addresses that count as one client: a single IPv4
// address, or an IPv6 /64, which is the smallest network that a subscriber gets (RFC 6177). A
// malformed address has the zero prefix.
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

// admit returns errTooManyMisses while the client has no misses left. Callers call it
// before the lookup, so that a refusal does not reveal whether the code exists.
func (m *missLimiter) admit(client netip.Prefix) error {
	if l, ok := m.limiters.GetIfPresent(client); ok && l.Tokens() < 1 {
		return errTooManyMisses
	}
	return nil
}

// count records one miss of the client.
func (m *missLimiter) count(client netip.Prefix) {
	l, ok := m.limiters.GetIfPresent(client)
	if !ok {
		l, _ = m.limiters.SetIfAbsent(client, rate.NewLimiter(missesPerSecond, missBurst))
	}
	// Reserve takes a token even if none is left. One token can admit several concurrent
	// requests, and each of their misses must count.
	l.Reserve()
}
