package fault

import (
	"fmt"
	"net"
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
			name: "10", title: "Redis restarted from an older snapshot", change: true,
			injected: "Redis saves a snapshot, two servers take 100,000 keys each, Redis is killed with SIGKILL and restarts from the snapshot, with a pool half empty.",
			run:      func(r *run) { restoreRedis(r, false) }, claims: claims, controls: control,
		},
		{
			name: "10b", title: "as 10, and the pool looks full",
			injected: "As row 10, but the pool is full in the snapshot, and so when Redis is back.",
			run:      func(r *run) { restoreRedis(r, true) }, claims: claims, controls: control,
		},
		{
			name: "11", title: "Redis fails over to a lagging replica",
			injected: "A replica of Redis is frozen, two servers take 100,000 keys each, the master is killed with SIGKILL, and the replica is promoted.",
			run:      redisFailsOver, claims: claims, controls: control,
		},
		{
			name: "11b", title: "as 11, by a Sentinel",
			injected: "As row 11, but a Sentinel notices the death of the master and promotes the replica.",
			run:      sentinelFailsOver, claims: claims, controls: control,
		},
	}
}

// rollback is a pool that comes back with data of the past, and what works with it.
type rollback struct {
	*run
	postgres *lab.Database
	redisURL string
	worker   *lab.Program
	servers  []*lab.Program
	loads    []*lab.Load
	keys     int // that each server takes and that Redis then knows nothing of
}

// newRollback starts a worker and waits until it has filled the pool.
func newRollback(r *run, redisURL string) *rollback {
	b := &rollback{run: r, postgres: lab.Postgres(r), redisURL: redisURL, keys: r.Times(100_000)}
	b.worker = lab.Worker(r, b.settings()...)
	b.worker.Start()
	awaitFull(r, b.worker)
	return b
}

func (b *rollback) settings(more ...string) []string {
	return append([]string{
		"DATABASE_URL=" + b.postgres.URL, "REDIS_URL=" + b.redisURL, fmt.Sprintf("KGS_POOL_CAPACITY=%d", 2*b.keys),
	}, more...)
}

// take makes two servers take keys, and creates links with some of them.
func (b *rollback) take() {
	for len(b.servers) < 2 {
		b.takeOne()
	}
	for _, load := range b.loads {
		load.AwaitMore(int64(min(500, b.keys/10)))
	}
}

// takeOne starts a server, which takes keys in two batches.
func (b *rollback) takeOne() {
	batch := fmt.Sprint(b.keys / 2)
	s := lab.Server(b, b.settings("KGS_WORKER=false", "KGS_BATCH_MIN="+batch, "KGS_BATCH_MAX="+batch)...)
	s.Start()
	lab.Wait(b, patient, "the keys are taken", func() bool { return local(s) >= int64(b.keys/2)*2 })
	load := lab.Traffic(b, s)
	load.Start(250)
	b.servers, b.loads = append(b.servers, s), append(b.loads, load)
}

// epoch is that of the full pool before the rollback.
func (b *rollback) epoch() int64 {
	awaitFull(b.run, b.worker)
	return epochOf(b.worker.Status())
}

// renewed waits for the epoch that follows on epoch, Redis being back now, and ends the row.
func (b *rollback) renewed(epoch int64) {
	const limit, hopeless = 5 * time.Second, 20 * time.Second
	back := time.Now()
	b.strike(1)
	for _, p := range append(b.servers, b.worker) {
		if !lab.Happens(b, hopeless, func() bool { return epochOf(p.Status()) > epoch }) {
			b.Refute("epoch", "%v after Redis was back the epoch of a process is still %d, which was the epoch before", time.Since(back), epochOf(p.Status()))
		}
		b.saw("epoch", true, "the epoch was %d and is %d", epoch, epochOf(p.Status()))
		b.took("epoch time", limit, time.Since(back))
	}
	b.useUp()
	var known float64
	for i, s := range b.servers {
		b.stop(b.loads[i])
		known += conflicts(s)
	}
	most := len(b.servers) * b.keys
	b.figure("conflicts", float64(most), known, "%v keys were handed out that were links; the servers had taken %d", known, most)
	b.end(b.servers, b.loads...)
	b.worker.Stop()
	b.audit(b.servers[0])
}

// useUp loads a server without local keys, which needs those of the new epoch.
func (b *rollback) useUp() {
	s := lab.Server(b, b.settings("KGS_WORKER=false")...)
	s.Start()
	load := lab.Traffic(b, s)
	load.Start(500)
	load.AwaitMore(int64(b.Times(2000)))
	b.servers, b.loads = append(b.servers, s), append(b.loads, load)
}

// restoreRedis restarts Redis from a snapshot, with a pool that is full in it or half empty.
func restoreRedis(r *run, full bool) {
	redis := lab.DurableRedis(r, "--appendonly", "no")
	b := newRollback(r, redis.URL)
	if !full {
		b.worker.Stop()
		b.takeOne()
	}
	// Only SAVE writes the file, and a start reads it.
	r.Must(lab.RedisClient(r, redis.URL).Save(r.Context()).Err())
	if !full {
		b.worker.Start()
	}
	b.take()
	epoch := b.epoch()
	redis.Kill()
	redis.Restart()
	b.renewed(epoch)
}

// The programs learn of the promotion because their address leads elsewhere.
func redisFailsOver(r *run) {
	p := newPair(r)
	proxy := lab.Proxy(r, p.master.Addr)
	p.failOver("redis://"+proxy.Addr, func() {
		r.Must(p.behind.Do(r.Context(), "REPLICAOF", "NO", "ONE").Err())
		proxy.Lead(p.replica.Addr)
	})
}

func sentinelFailsOver(r *run) {
	p := newPair(r)
	sentinel := startSentinel(r, p.master)
	p.failOver("redis://"+sentinel+"?master_name=main", func() {
		lab.Wait(r, patient, "the replica is promoted", func() bool {
			return strings.Contains(p.behind.Info(r.Context(), "replication").Val(), "role:master")
		})
	})
}

// pair is a master and a replica that has all of its data.
type pair struct {
	*run
	master, replica *lab.Database
	ahead, behind   *redis.Client // of the master and of the replica
}

func newPair(r *run) *pair {
	p := &pair{run: r, master: lab.DurableRedis(r), replica: lab.DurableRedis(r)}
	p.ahead, p.behind = lab.RedisClient(r, p.master.URL), lab.RedisClient(r, p.replica.URL)
	host, port, err := net.SplitHostPort(p.master.Addr)
	r.Must(err)
	r.Must(p.behind.Do(r.Context(), "REPLICAOF", host, port).Err())
	p.awaitInStep()
	return p
}

// awaitInStep waits until the replica has all that the master has.
func (p *pair) awaitInStep() {
	offset := func(client *redis.Client, field string) string {
		for line := range strings.Lines(client.Info(p.Context(), "replication").Val()) {
			if value, ok := strings.CutPrefix(line, field+":"); ok {
				return value
			}
		}
		return ""
	}
	lab.Wait(p, patient, "the replica is in step", func() bool {
		return strings.Contains(p.behind.Info(p.Context(), "replication").Val(), "master_link_status:up") &&
			offset(p.behind, "slave_repl_offset") == offset(p.ahead, "master_repl_offset")
	})
}

// failOver makes servers work with the pair by url, freezes the replica while they take
// keys, kills the master, and calls promote for the rest.
func (p *pair) failOver(url string, promote func()) {
	b := newRollback(p.run, url)
	p.awaitInStep()
	p.replica.Freeze()
	// The connection is cut too: the replica would still read what is on it already.
	p.Must(p.ahead.Do(p.Context(), "CLIENT", "KILL", "TYPE", "replica").Err())
	b.take()
	epoch := b.epoch()
	p.master.Kill()
	p.replica.Thaw()
	promote()
	b.renewed(epoch)
}

// startSentinel starts a Sentinel that watches master, and returns its address when it
// knows the replica.
func startSentinel(r *run, master *lab.Database) (addr string) {
	addr, err := lab.FreeAddr()
	r.Must(err)
	_, own, err := net.SplitHostPort(addr)
	r.Must(err)
	_, watched, err := net.SplitHostPort(master.Addr)
	r.Must(err)
	dir := r.TempDir()
	config := filepath.Join(dir, "sentinel.conf") // Sentinel writes to it as well
	r.Must(os.WriteFile(config, fmt.Appendf(nil, "port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor main 127.0.0.1 %s 1\n"+
		"sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 1000\n", own, dir, watched), 0o600))
	path, err := machine.LookPath("redis-server")
	r.Must(err)
	url := "redis://" + addr
	sentinel, err := machine.Program{
		Path: path, Args: []string{config, "--sentinel"}, Dir: dir, URL: url, Ping: machine.PingRedis,
	}.Start(r.Context())
	r.Must(err)
	r.Cleanup(func() {
		if err := sentinel.Close(); err != nil {
			r.Errorf("close the Sentinel: %w", err)
		}
	})
	client := lab.RedisClient(r, url)
	lab.Wait(r, patient, "the Sentinel knows the replica", func() bool {
		known, err := client.Do(r.Context(), "SENTINEL", "REPLICAS", "main").Slice()
		return err == nil && len(known) == 1
	})
	return addr
}
