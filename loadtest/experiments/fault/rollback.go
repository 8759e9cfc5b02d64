package fault

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"keypool/loadtest/lab"
)

// rollbackRows returns the fault rows in which Redis continues with older data.
func rollbackRows() []row {
	claims := theLinks(
		observed("new epoch", "The servers and the worker detect that the pool is from an older state, and a new epoch begins."),
		timed("new epoch time", "Every process reports the new epoch within 5 s after Redis is available again."),
		counted("number of conflicts", "conflicts", "At most one conflict occurs for each key that a server took before the fault. In a conflict, a server takes a key that is already linked."),
	)
	control := without("new epoch", "guard")
	return []row{
		{
			Name: "fault/10", Title: "Redis restarted from an older snapshot", Suites: changeToo(),
			Summary: "The pool is full. A server takes half of the keys in the pool (100,000 keys at scale 1), and Redis saves a snapshot. A second server takes as many keys, " +
				"and the worker refills the pool. Redis is killed with SIGKILL and restarts from the snapshot.",
			Run: inject(func(r *run) { restoreRedis(r, false) }), Claims: claims, Controls: control,
		},
		{
			Name: "fault/10b", Title: "Redis restarted from an older snapshot with a full pool",
			Summary: "The pool is full, and Redis saves a snapshot. Each of two servers then takes half as many keys as a full pool has (100,000 keys at scale 1), " +
				"and the worker refills the pool. Redis is killed with SIGKILL and restarts from the snapshot, in which the pool is full.",
			Run: inject(func(r *run) { restoreRedis(r, true) }), Claims: claims, Controls: control,
		},
		{
			Name: "fault/11", Title: "Redis fails over to a lagging replica",
			Summary: "A replica of Redis is frozen. Each of two servers then takes half as many keys as a full pool has (100,000 keys at scale 1). " +
				"The master is killed with SIGKILL. The replica continues and is promoted.",
			Run: inject(func(r *run) { redisFailsOver(r, byProxy) }), Claims: claims, Controls: control,
		},
		{
			Name: "fault/11b", Title: "Redis fails over to a lagging replica through a Sentinel",
			Summary: "A replica of Redis is frozen. Each of two servers then takes half as many keys as a full pool has (100,000 keys at scale 1). The master is killed with SIGKILL, and the replica continues. " +
				"A Sentinel detects that the master is down and promotes the replica.",
			Suites: changeToo(), Run: inject(func(r *run) { redisFailsOver(r, bySentinel) }), Claims: claims, Controls: control,
		},
	}
}

// rollback is a run in which Redis returns to an older state, with the programs that use the pool.
type rollback struct {
	*run
	worker  *lab.Program
	servers []*lab.Program
	keys    int // number of keys that each of the two servers takes
}

// newRollback starts a worker, which connects to Redis by url, and waits until the worker has filled the pool.
func newRollback(r *run, redis *lab.Database, url string) *rollback {
	b := &rollback{run: r, keys: r.Times(100_000)}
	r.use(lab.Postgres(r), redis, "REDIS_URL="+url, fmt.Sprintf("KGS_POOL_CAPACITY=%d", 2*b.keys))
	b.worker = r.worker()
	b.worker.Start()
	r.awaitFull(b.worker)
	return b
}

// takeOne starts a server, waits until the server has taken b.keys keys in two batches, and starts a load.
func (b *rollback) takeOne() {
	batch := fmt.Sprint(b.keys / 2)
	s := b.started(noWorker, "KGS_BATCH_MIN="+batch, "KGS_BATCH_MAX="+batch)
	lab.Wait(b, patient, "the keys are taken", func() bool { return local(b, s) >= int64(b.keys/2)*2 })
	b.start(s, 250)
	b.servers = append(b.servers, s)
}

// take starts servers until two servers have taken keys, and waits until some of these keys are linked. It then
// waits until the pool is full again, and returns the epoch of the pool.
func (b *rollback) take() (epoch int64) {
	for len(b.servers) < 2 {
		b.awaitFull(b.worker) // a pool that is not full may give smaller batches
		b.takeOne()
	}
	for _, load := range b.loads {
		load.AwaitMore(int64(min(500, b.keys/10)))
	}
	return b.awaitEpoch(b.worker)
}

// renewed waits until every process reports a later epoch than the given epoch, and ends the row. The row must call
// renewed as soon as Redis is available again.
func (b *rollback) renewed(epoch int64) {
	const limit, giveUp = 5 * time.Second, 20 * time.Second
	back := time.Now()
	b.strike(1)
	for _, p := range append(b.servers, b.worker) {
		now := int64(-1) // the epoch that the process reports; -1 while it reports none
		newer := lab.Happens(b, giveUp, func() bool { now = lab.Known(p.Status().Epoch, -1); return now > epoch })
		b.must("new epoch", newer, "the epoch was %d before the fault; %v after Redis was available again, a process reports %s",
			epoch, time.Since(back).Round(time.Millisecond), either(now < 0, "no epoch", fmt.Sprint("the epoch ", now)))
		b.took("new epoch time", limit, time.Since(back))
	}
	most := len(b.servers) * b.keys
	fresh := b.started(noWorker) // it has no local keys, so it needs keys of the new epoch
	b.start(fresh, 500).AwaitMore(int64(b.Times(2000)))
	b.servers = append(b.servers, fresh)
	b.stop(b.loads...)
	var known float64
	for _, s := range b.servers {
		known += conflicts(b, s)
	}
	b.figure("number of conflicts", float64(most), known, "%v keys were handed out although they were already linked; at most %d are allowed", known, most)
	b.end(b.servers...)
	b.worker.Stop()
	b.audit(b.servers[0])
}

// restoreRedis restarts Redis from a snapshot. If full is true, the pool is full in the snapshot. Otherwise, the pool is
// half empty in the snapshot.
func restoreRedis(r *run, full bool) {
	redis := lab.Redis(r)
	b := newRollback(r, redis, redis.URL)
	if !full {
		b.worker.Stop()
		b.takeOne()
	}
	// Redis writes the snapshot only on SAVE, and reads it when it starts.
	r.Must(lab.RedisClient(r, redis.URL).Save(r.Context()).Err())
	if !full {
		b.worker.Start()
	}
	epoch := b.take()
	redis.Kill()
	redis.Restart()
	b.renewed(epoch)
}

// redisFailsOver freezes a replica while servers take keys, kills the master, and promotes the replica.
// The function connect determines how the programs find the master, and returns their REDIS_URL. It also returns
// the function promote. When promote returns, the replica is the master and the programs can find it.
func redisFailsOver(r *run, connect func(r *run, master, replica *lab.Database) (url string, promote func())) {
	master, replica := lab.DurableRedis(r), lab.DurableRedis(r)
	ahead, behind := lab.RedisClient(r, master.URL), lab.RedisClient(r, replica.URL)
	host, port, _ := strings.Cut(master.Addr, ":")
	r.Must(behind.Do(r.Context(), "REPLICAOF", host, port).Err())
	lab.Wait(r, patient, "the replica is connected to the master", func() bool { return replication(r, behind, "master_link_status") == "up" })
	url, promote := connect(r, master, replica)
	b := newRollback(r, master, url)
	lab.Wait(r, patient, "the replica has the data of the master", func() bool {
		offset := replication(r, behind, "slave_repl_offset")
		return offset != "" && offset == replication(r, ahead, "master_repl_offset")
	})
	replica.Freeze()
	// The master must close its connection to the replica. If the connection stayed open, the replica would later
	// read the data that is in its buffers.
	r.Must(ahead.Do(r.Context(), "CLIENT", "KILL", "TYPE", "replica").Err())
	epoch := b.take()
	master.Kill()
	replica.Thaw()
	promote()
	b.renewed(epoch)
}

// replication returns a field of the section replication of INFO, or "" if Redis does not report it.
func replication(r *run, client *redis.Client, field string) string {
	_, rest, _ := strings.Cut(client.Info(r.Context(), "replication").Val(), "\n"+field+":")
	value, _, _ := strings.Cut(rest, "\r")
	return value
}

// byProxy makes the programs connect through a proxy. promote promotes the replica and lets the proxy
// forward connections to it.
func byProxy(r *run, master, replica *lab.Database) (url string, promote func()) {
	proxy := lab.Proxy(r, master.Addr)
	return "redis://" + proxy.Addr, func() {
		r.Must(lab.RedisClient(r, replica.URL).Do(r.Context(), "REPLICAOF", "NO", "ONE").Err())
		proxy.Lead(replica.Addr)
	}
}

// bySentinel starts a Sentinel and waits until the Sentinel has found the replica. promote waits until the
// Sentinel has promoted the replica.
func bySentinel(r *run, master, replica *lab.Database) (url string, promote func()) {
	url = lab.Sentinel(r, master).URL
	sentinel, behind := lab.RedisClient(r, url), lab.RedisClient(r, replica.URL)
	lab.Wait(r, patient, "the Sentinel has found the replica", func() bool {
		known, err := sentinel.Do(r.Context(), "SENTINEL", "REPLICAS", "main").Slice()
		return err == nil && len(known) == 1
	})
	return url + "?master_name=main", func() {
		lab.Wait(r, patient, "the replica is promoted", func() bool { return replication(r, behind, "role") == "master" })
	}
}
