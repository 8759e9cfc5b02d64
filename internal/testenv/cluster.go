package testenv

import (
	"errors"
	"os/exec"
	"testing"

	"keypool/internal/testenv/machine"
)

// StartRedisCluster starts a Redis Cluster of the given number of masters, each with one replica; see
// [machine.StartRedisCluster]. It returns the masters, then their replicas in the same order, and the
// URL of the Cluster. A replica replaces a master that has not answered for about 5 s, so a pause of the machine seldom
// causes a failover.
func StartRedisCluster(t testing.TB, masters int, args ...string) (nodes []*Server, url string) {
	t.Helper()
	servers, err := machine.StartRedisCluster(t.Context(), masters, append([]string{"--cluster-node-timeout", "5000"}, args...)...)
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("a program is not installed (%v); `make test` installs it", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range servers {
		nodes = append(nodes, own(t, server, nil))
	}
	return nodes, machine.ClusterURL(servers)
}

// StartSentinel starts a Sentinel that watches a Redis server, master, under the name main. It appends the lines to the
// configuration of the Sentinel. If the Redis has not answered for 5 s, the Sentinel considers it down.
func StartSentinel(t testing.TB, master *Server, lines ...string) *Server {
	t.Helper()
	server, err := machine.StartSentinel(t.Context(), master.Addr, append([]string{"sentinel down-after-milliseconds main 5000"}, lines...)...)
	return own(t, server, err)
}
