package fault

import (
	"fmt"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
)

// clusterRows returns the fault rows in which a master of a Redis Cluster is killed.
func clusterRows() []row {
	return []row{
		{
			Name: "fault/11c", Title: "Redis Cluster loses the master that has the pool",
			Summary: "The pool is in a Redis Cluster of three masters and three replicas. The master with the pool is killed with SIGKILL under load. " +
				"The Cluster promotes the replica of this master.",
			Run: inject(poolMasterKilled), Controls: without(recovers, "cluster-reload"),
			Claims: theLinks(
				availableTo(99.9),
				observed(recovers, "Within 20 s after the promotion, the server and the worker use the new master: the circuit breaker of the server is closed, "+
					"a new epoch of the pool has begun, and the pool is full."),
			),
		},
		{
			Name: "fault/cluster", Title: "Redis Cluster loses one of three masters with lists of the pool",
			Summary: "The pool has three lists, one on each master of a Redis Cluster. Under load, a master and its replica are killed with SIGKILL. " +
				"Later, both are restarted without data. At scale 1, this is a minute after the kill.",
			Run: inject(listKilled), Controls: []experiment.Control{{Settings: []string{"KGS_POOL_SHARDS=1"}, Refutes: otherLists}},
			Claims: theLinks(
				noneFails("while a master is down"),
				counted(otherLists, "codes", "While a master is down, the fallback makes no code, because the server takes keys from the lists on the other masters."),
				observed(recovers, "After the master is available again, a new epoch of its list begins, and the pool becomes full."),
			),
		},
	}
}

const otherLists = "keys of the other lists"

// clusterMasters is the number of masters of a Cluster. Each master has one replica.
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
	lab.Pause(r, max(r.Lasting(20*time.Second), 4*time.Second)) // meanwhile the batches grow with the load

	holder := masterOfPool(r, nodes)
	nodes[holder].Kill()
	r.strike(1)
	promoted := lab.RedisClient(r, nodes[clusterMasters+holder].URL)
	lab.Wait(r, patient, "the replica is promoted", func() bool { return replication(r, promoted, "role") == "master" })
	var s lab.Status // the last status of the server
	resumed := lab.Happens(r, 20*time.Second, func() bool {
		s = server.Status()
		return lab.Known(s.Breaker, "") == "closed" && s.Full() && lab.Known(s.Epoch, -1) > epoch && worker.Status().Full()
	})
	r.must(recovers, resumed, "the epoch was %d before the fault; at the end of the wait, the server reported the epoch %s, the breaker %s, the state %s and %s keys in the pool",
		epoch, reported(s.Epoch), reported(s.Breaker), s.State, reported(s.PoolKeys))
	lab.Pause(r, r.Lasting(20*time.Second))
	r.serve(load)
	worker.Stop()
	r.end(server)
}

// listKilled kills a master that has a list of the pool, and the replica of this master. The list does not answer
// while the master and the replica are down.
func listKilled(r *run) {
	nodes, url := lab.RedisCluster(r, clusterMasters)
	r.use(lab.Postgres(r, manyConnections), nodes[0], "REDIS_URL="+url, "KGS_POOL_CAPACITY=100000", fmt.Sprintf("KGS_POOL_SHARDS=%d", clusterMasters))
	server, worker := r.server(noWorker), r.worker()
	worker.Start()
	server.Start()
	epoch := r.awaitEpoch(server)
	load := r.start(server, 300)
	lab.Pause(r, max(r.Lasting(20*time.Second), 4*time.Second)) // meanwhile the batches grow with the load

	holder := masterOfPool(r, nodes)
	before := random(server)
	nodes[clusterMasters+holder].Kill()
	nodes[holder].Kill()
	r.strike(1)
	lab.Pause(r, max(r.Lasting(time.Minute), 2*drain))
	made := random(server) - before
	r.figure(otherLists, 0, made, "the fallback made %v codes", made)
	r.serve(load)
	nodes[holder].Restart()
	nodes[clusterMasters+holder].Restart()
	r.becomes(recovers, "the restart of the master and the replica", "the pool is full in the next epoch", func() bool {
		s := server.Status()
		return s.Full() && lab.Known(s.Epoch, -1) > epoch
	})
	worker.Stop()
	r.end(server)
}

// masterOfPool returns the index of the master that stores the most Redis keys. The Cluster stores only the pool, so
// this master has the pool or a list of the pool.
func masterOfPool(r *run, nodes []*lab.Database) (holder int) {
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
