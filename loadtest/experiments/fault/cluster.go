package fault

import (
	"time"

	"keypool/loadtest/lab"
)

// clusterRows returns the rows in which a master of a Redis Cluster ends.
func clusterRows() []row {
	return []row{
		{
			Name: "fault/11c", Title: "Redis Cluster loses the master of the pool",
			Summary: "The pool is in a Redis Cluster of three masters and three replicas. The master with the pool is killed with SIGKILL under load. " +
				"The Cluster promotes its replica.",
			Run: inject(poolMasterKilled), Controls: without(recovers, "cluster-reload"),
			Claims: theLinks(
				availableTo(99.9),
				observed(recovers, "Within 20 s after the promotion, the server and the worker use the new master: the breaker is closed, and the pool is full in the next epoch."),
			),
		},
	}
}

// clusterMasters is the number of masters of a Cluster. Each of them has one replica.
const clusterMasters = 3

// poolMasterKilled kills the master that has the keys of the pool.
func poolMasterKilled(r *run) {
	nodes, url := lab.RedisCluster(r, clusterMasters)
	r.use(lab.Postgres(r, manyConnections), nodes[0], "REDIS_URL="+url, "KGS_POOL_CAPACITY=100000")
	server, worker := r.server(noWorker), r.worker()
	worker.Start()
	server.Start()
	epoch := r.awaitEpoch(server)
	load := r.start(server, 300)
	lab.Pause(r, max(r.Lasting(20*time.Second), 4*time.Second)) // so that the batches have grown with the load

	holder := holderOfPool(r, nodes)
	nodes[holder].Kill()
	r.strike(1)
	promoted := lab.RedisClient(r, nodes[clusterMasters+holder].URL)
	lab.Wait(r, patient, "the replica is promoted", func() bool { return replication(r, promoted, "role") == "master" })
	resumed := lab.Happens(r, 20*time.Second, func() bool {
		s := server.Status()
		return lab.Known(s.Breaker, "") == "closed" && s.Full() && lab.Known(s.Epoch, -1) > epoch && worker.Status().Full()
	})
	r.must(recovers, resumed, "the epoch before the fault was %d; status of the server: %+v", epoch, server.Status())
	lab.Pause(r, r.Lasting(20*time.Second))
	r.serve(load)
	worker.Stop()
	r.end(server)
}

// holderOfPool returns the index of the master that has the most keys.
func holderOfPool(r *run, nodes []*lab.Database) (holder int) {
	most := int64(0)
	for i, node := range nodes[:clusterMasters] {
		size, err := lab.RedisClient(r, node.URL).DBSize(r.Context()).Result()
		r.Must(err)
		if size > most {
			holder, most = i, size
		}
	}
	return holder
}
