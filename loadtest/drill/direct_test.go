//go:build drill

package drill

import (
	"net"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
)

// redisClient is for the drill itself. It does not repeat commands.
func redisClient(t testing.TB, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// portOf is the port of an address.
func portOf(t testing.TB, addr string) uint16 {
	t.Helper()
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(port)
}
