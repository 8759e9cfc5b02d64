package lab

import "keypool/internal/testenv/machine"

// Cluster is a Citus cluster of one run: a coordinator, and workers that keep the shards. The cluster stops when the
// run ends.
type Cluster struct {
	Coordinator *Database
	Workers     []*Database

	r       T
	cluster *machine.Cluster
}

// Citus starts a Citus cluster with a number of workers and with the settings ("name=value"). By default its commits
// are durable.
func Citus(r T, workers int, settings ...string) *Cluster {
	cluster, err := machine.StartCitus(r.Context(), workers, settings...)
	must(r, err, "start a Citus cluster")
	r.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			r.Errorf("close a Citus cluster: %v", err)
		}
	})
	c := &Cluster{r: r, cluster: cluster, Coordinator: member(r, cluster.Coordinator)}
	for _, worker := range cluster.Workers {
		c.Workers = append(c.Workers, member(r, worker))
	}
	return c
}

// member returns the Database of a server in the cluster. It registers no cleanup, because the cleanup of the cluster
// closes the server.
func member(r T, s *machine.Server) *Database {
	return &Database{Addr: s.Addr, URL: s.URL, r: r, server: s}
}

// AddWorker adds a worker. The worker gets shards when the cluster is rebalanced.
func (c *Cluster) AddWorker() *Database {
	s, err := c.cluster.AddWorker(c.r.Context())
	must(c.r, err, "add a worker to a Citus cluster")
	c.Workers = append(c.Workers, member(c.r, s))
	return c.Workers[len(c.Workers)-1]
}
