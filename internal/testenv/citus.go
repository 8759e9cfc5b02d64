package testenv

import (
	"crypto/rand"
	"errors"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"keypool/internal/testenv/machine"
)

// Cluster is a Citus cluster of one test: a coordinator and workers.
type Cluster struct {
	Coordinator *Server
	Workers     []*Server

	t       testing.TB
	cluster *machine.Cluster
}

// StartCitus starts a Citus cluster with the given number of workers. The settings ("name=value") override the
// defaults of every node.
func StartCitus(t testing.TB, workers int, settings ...string) *Cluster {
	t.Helper()
	cluster, err := machine.StartCitus(t.Context(), workers, settings...)
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("Citus is not installed (%v); run: bin/keeper need postgres citus", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Errorf("close the cluster: %v", err)
		}
	})
	c := &Cluster{t: t, cluster: cluster, Coordinator: node(t, cluster.Coordinator)}
	for _, worker := range cluster.Workers {
		c.Workers = append(c.Workers, node(t, worker))
	}
	return c
}

func node(t testing.TB, server *machine.Server) *Server {
	return &Server{Addr: server.Addr, URL: server.URL, t: t, server: server}
}

// AddWorker adds a worker to the cluster. The worker has no shards until the cluster is rebalanced.
func (c *Cluster) AddWorker() *Server {
	c.t.Helper()
	worker, err := c.cluster.AddWorker(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	c.Workers = append(c.Workers, node(c.t, worker))
	return c.Workers[len(c.Workers)-1]
}

// Schema creates an empty schema and returns the URL of the coordinator with this schema in the parameter search_path.
// Each test that shares a cluster has its own schema.
func (c *Cluster) Schema(t testing.TB) string {
	t.Helper()
	schema := "test_" + strings.ToLower(rand.Text())
	execute(t, c.Coordinator.URL, "CREATE SCHEMA "+schema)
	return withSchema(t, c.Coordinator.URL, schema)
}

func withSchema(t testing.TB, server, schema string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal("the URL of the server is malformed") // does not print err, which contains the password
	}
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()
	return u.String()
}
