package testenv

import (
	"errors"
	"os/exec"
	"testing"

	"keypool/internal/testenv/machine"
)

// StartRedisCluster starts a Redis Cluster of the given number of masters, each with one replica; see
// [machine.StartRedisCluster]. It returns the masters, then their replicas in the same order, and the
// URL of the Cluster.
func StartRedisCluster(t testing.TB, masters int, args ...string) (nodes []*Server, url string) {
	t.Helper()
	servers, err := machine.StartRedisCluster(t.Context(), masters, args...)
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

// StartSentinel starts a Sentinel that watches a Redis under the name main, with additional lines of its
// configuration.
func StartSentinel(t testing.TB, master *Server, lines ...string) *Server {
	t.Helper()
	server, err := machine.StartSentinel(t.Context(), master.Addr, lines...)
	return own(t, server, err)
}
