package app

import (
	"math"
	"net/netip"
	"runtime/debug"
	"testing"

	"keypool/cmd/internal/config"
)

// This test is not parallel, because the memory limit applies to the whole process.
func TestDefaultConnectionLimitsFitIntoMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	most := min(defaultConnections, openFiles()/2)
	for _, tt := range []struct {
		limit             int64
		set               config.Common
		total, perAddress int
	}{
		{math.MaxInt64, config.Common{}, most, most / 2},
		{ConnectionMemory * 4 * 100, config.Common{}, 100, 50},
		{0, config.Common{}, 1, 1},
		{0, config.Common{MaxConnections: 500}, 500, 250},
		{0, config.Common{MaxConnections: 500, MaxPerAddress: 7}, 500, 7},
	} {
		debug.SetMemoryLimit(tt.limit)
		if total, perAddress := connectionLimits(tt.set, ConnectionMemory); total != tt.total || perAddress != tt.perAddress {
			t.Errorf("GOMEMLIMIT %d, settings %d and %d: limits %d and %d, want %d and %d",
				tt.limit, tt.set.MaxConnections, tt.set.MaxPerAddress, total, perAddress, tt.total, tt.perAddress)
		}
	}
}

func TestConnectionsOfProxiesAndLoopbackAreUnlimitedByDefault(t *testing.T) {
	t.Parallel()
	proxies := config.Networks{netip.MustParsePrefix("10.0.0.0/8")}
	for _, tt := range []struct {
		addr    string
		set     int
		client  string
		limited bool
	}{
		{"192.0.2.1", 0, "192.0.2.1/32", true},
		{"::ffff:192.0.2.1", 0, "192.0.2.1/32", true},
		{"2001:db8::1", 0, "2001:db8::/64", true},
		{"fe80::1%eth0", 0, "fe80::/64", true},
		{"127.0.0.1", 0, "127.0.0.1/32", false},
		{"::1", 0, "::/64", false},
		{"127.0.0.1", 5, "127.0.0.1/32", true},
		{"10.1.2.3", 5, "10.1.2.3/32", false},
		{"::ffff:10.1.2.3", 0, "10.1.2.3/32", false},
	} {
		client, limited := connectionClient(config.Common{MaxPerAddress: tt.set}, proxies, netip.MustParseAddr(tt.addr))
		if client.String() != tt.client || limited != tt.limited {
			t.Errorf("%s with the setting %d: client %s, limited %v; want %s, %v", tt.addr, tt.set, client, limited, tt.client, tt.limited)
		}
	}
}
