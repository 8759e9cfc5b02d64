package fault

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"keypool/internal/testenv/machine"
	"keypool/loadtest/lab"

	"github.com/redis/go-redis/v9"
)

// rollbackRows are the faults after which Redis has data of the past.
func rollbackRows() []row {
	claims := theLinks(
		observed("epoch", "Server and worker notice that the pool is from the past and begin a new epoch."),
		timed("epoch time", "Every process knows the new epoch within 5 s of Redis being back."),
		counted("conflicts", "keys", "At most as many keys are handed out that are links already as the servers had taken."),
	)
	control := without("epoch", "guard")
	return []row{
		{
			Name: "fault/10", Title: "Redis restarted from an older snapshot", Suites: changeToo(),
			Summary: "Redis saves a snapshot, two servers take 100,000 keys each, Redis is killed with SIGKILL and restarts from the snapshot, with a pool half empty.",
			Run:     inject(func(r *run) { restoreRedis(r, false) }), Claims: claims, Controls: control,
		},
		{
			Name: "fault/10b", Title: "as 10, and the pool looks full",
			Summary: "As row 10, but the pool is full in the snapshot, and so when Redis is back.",
			Run:     inject(func(r *run) { restoreRedis(r, true) }), Claims: claims, Controls: control,
		},
		{
			Name: "fault/11", Title: "Redis fails over to a lagging replica",
			Summary: "A replica of Redis is frozen, two servers take 100,000 keys each, the master is killed with SIGKILL, and the replica is promoted.",
			Run:     inject(func(r *run) { redisFailsOver(r, byProxy) }), Claims: claims, Controls: control,
		},
		{
			Name: "fault/11b", Title: "as 11, by a Sentinel",
			Summary: "As row 11, but a Sentinel notices the death of the master and promotes the replica.",
			Run:     inject(func(r *run) { redisFailsOver(r, bySentinel) }), Claims: claims, Controls: control,
		},
	}
}

// rollback is a pool that comes back with data of the past, and what works with it.
type rollback struct {
	*run
	worker  *lab.Program
	servers []*lab.Program
	keys    int // that each server takes and that Redis then knows nothing of
}

// newRollback starts a worker, which knows Redis by url, and waits until it has filled the pool.
func newRollback(r *run, redis *lab.Database, url string) *rollback {
	b := &rollback{run: r, keys: r.Times(100_000)}
	r.use(lab.Postgres(r), redis, "REDIS_URL="+url, fmt.Sprintf("KGS_POOL_CAPACITY=%d", 2*b.keys))
	b.worker = r.worker()
	b.worker.Start()
	r.awaitFull(b.worker)
	return b
}

// takeOne starts a server, which takes keys in two batches.
func (b *rollback) takeOne() {
	batch := fmt.Sprint(b.keys / 2)
	s := b.started(noWorker, "KGS_BATCH_MIN="+batch, "KGS_BATCH_MAX="+batch)
	lab.Wait(b, patient, "the keys are taken", func() bool { return local(s) >= int64(b.keys/2)*2 })
	b.start(s, 250)
	b.servers = append(b.servers, s)
}

// take makes two servers take keys, creates links with some of them, and returns the epoch of the
// pool when it is full again.
func (b *rollback) take() (epoch int64) {
	for len(b.servers) < 2 {
		b.takeOne()
	}
	for _, load := range b.loads {
		load.AwaitMore(int64(min(500, b.keys/10)))
	}
	b.awaitFull(b.worker)
	return epochOf(b.worker)
}

// renewed waits for the epoch that follows on epoch, Redis being back now, and ends the row.
func (b *rollback) renewed(epoch int64) {
	const limit, hopeless = 5 * time.Second, 20 * time.Second
	back := time.Now()
	b.strike(1)
	for _, p := range append(b.servers, b.worker) {
		newer := lab.Happens(b, hopeless, func() bool { return epochOf(p) > epoch })
		b.must("epoch", newer, "the epoch was %d; %v after Redis was back a process knows epoch %d", epoch, time.Since(back), epochOf(p))
		b.took("epoch time", limit, time.Since(back))
	}
	fresh := b.started(noWorker) // without local keys, so that it needs those of the new epoch
	b.start(fresh, 500).AwaitMore(int64(b.Times(2000)))
	b.servers = append(b.servers, fresh)
	for _, load := range b.loads {
		b.stop(load)
	}
	var known float64
	for _, s := range b.servers {
		known += conflicts(s)
	}
	most := len(b.servers) * b.keys
	b.figure("conflicts", float64(most), known, "%v keys were handed out that were links; the servers had taken %d", known, most)
	b.end(b.servers...)
	b.worker.Stop()
	b.audit(b.servers[0])
}

// restoreRedis restarts Redis from a snapshot, with a pool that is full in it or half empty.
func restoreRedis(r *run, full bool) {
	redis := lab.DurableRedis(r, "--appendonly", "no")
	b := newRollback(r, redis, redis.URL)
	if !full {
		b.worker.Stop()
		b.takeOne()
	}
	// Only SAVE writes the file, and a start reads it.
	r.Must(lab.RedisClient(r, redis.URL).Save(r.Context()).Err())
	if !full {
		b.worker.Start()
	}
	epoch := b.take()
	redis.Kill()
	redis.Restart()
	b.renewed(epoch)
}

// redisFailsOver freezes a replica while servers take keys, kills the master, and has the replica
// promoted. way is how the programs find the master: url is the REDIS_URL, and promote
// returns when the replica is the master and the programs can find it.
func redisFailsOver(r *run, way func(r *run, master, replica *lab.Database) (url string, promote func())) {
	master, replica := lab.DurableRedis(r), lab.DurableRedis(r)
	ahead, behind := lab.RedisClient(r, master.URL), lab.RedisClient(r, replica.URL)
	host, port, _ := strings.Cut(master.Addr, ":")
	r.Must(behind.Do(r.Context(), "REPLICAOF", host, port).Err())
	lab.Wait(r, patient, "the replica follows", func() bool { return replication(r, behind, "master_link_status") == "up" })
	url, promote := way(r, master, replica)
	b := newRollback(r, master, url)
	lab.Wait(r, patient, "the replica is in step", func() bool {
		offset := replication(r, behind, "slave_repl_offset")
		return offset != "" && offset == replication(r, ahead, "master_repl_offset")
	})
	replica.Freeze()
	// The connection is cut too: the replica would still read what is on it already.
	r.Must(ahead.Do(r.Context(), "CLIENT", "KILL", "TYPE", "replica").Err())
	epoch := b.take()
	master.Kill()
	replica.Thaw()
	promote()
	b.renewed(epoch)
}

// replication is a field of what a Redis says about its replication, "" when it says nothing.
func replication(r *run, client *redis.Client, field string) string {
	_, rest, _ := strings.Cut(client.Info(r.Context(), "replication").Val(), "\n"+field+":")
	value, _, _ := strings.Cut(rest, "\r")
	return value
}

// byProxy promotes the replica. The programs learn of it because their address leads elsewhere.
func byProxy(r *run, master, replica *lab.Database) (url string, promote func()) {
	proxy := lab.Proxy(r, master.Addr)
	return "redis://" + proxy.Addr, func() {
		r.Must(lab.RedisClient(r, replica.URL).Do(r.Context(), "REPLICAOF", "NO", "ONE").Err())
		proxy.Lead(replica.Addr)
	}
}

// bySentinel starts a Sentinel that promotes the replica, and waits until it knows both.
func bySentinel(r *run, master, replica *lab.Database) (url string, promote func()) {
	path, err := machine.LookPath("redis-server")
	r.Must(err)
	config := filepath.Join(r.TempDir(), "sentinel.conf") // Sentinel writes to it as well
	asRedis := func(address string) string { return strings.Replace(address, "http:", "redis:", 1) }
	url = asRedis(lab.Other(r, nil, func(addr string) (string, []string) {
		_, own, _ := strings.Cut(addr, ":")
		text := fmt.Sprintf("port %s\nbind 127.0.0.1\nsentinel monitor main %s 1\n"+
			"sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 1000\n", own, strings.Replace(master.Addr, ":", " ", 1))
		r.Must(os.WriteFile(config, []byte(text), 0o600))
		return path, []string{config, "--sentinel"}
	}, func(ctx context.Context, address string) error { return machine.PingRedis(ctx, asRedis(address)) }))
	sentinel, behind := lab.RedisClient(r, url), lab.RedisClient(r, replica.URL)
	lab.Wait(r, patient, "the Sentinel knows the replica", func() bool {
		known, err := sentinel.Do(r.Context(), "SENTINEL", "REPLICAS", "main").Slice()
		return err == nil && len(known) == 1
	})
	return url + "?master_name=main", func() {
		lab.Wait(r, patient, "the replica is promoted", func() bool { return replication(r, behind, "role") == "master" })
	}
}
