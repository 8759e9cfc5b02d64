//go:build drill

package drill

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
)

const (
	// renewal is within what time every process must know of the new epoch.
	renewal = 5 * time.Second
	// held is how many keys each of two servers takes that Redis then knows nothing of.
	held = 100_000
)

// rollback is a pool that comes back with data of the past, and who works with it.
type rollback struct {
	d        *drill
	postgres *testenv.Server
	redisURL string
	worker   *service
	servers  []*service
	loads    []*traffic
	taken    int // keys that each server takes
}

// newRollback starts a worker and waits until it has filled the pool.
func newRollback(d *drill, redisURL string) *rollback {
	d.Helper()
	r := &rollback{d: d, postgres: testenv.StartPostgres(d), redisURL: redisURL, taken: d.times(held)}
	r.worker = newWorker(d, r.settings()...)
	r.worker.start()
	await(d, patient, "the pool is full", func() bool { return r.worker.status().full() })
	return r
}

func (r *rollback) settings(more ...string) []string {
	return append([]string{
		"DATABASE_URL=" + r.postgres.URL, "REDIS_URL=" + r.redisURL,
		fmt.Sprintf("KGS_POOL_CAPACITY=%d", 2*r.taken),
	}, more...)
}

// take has two servers take keys, and make links of some of them.
func (r *rollback) take() {
	r.d.Helper()
	for len(r.servers) < 2 {
		r.takeOne()
	}
	for _, load := range r.loads {
		load.awaitMore(int64(min(500, r.taken/10)))
	}
}

// takeOne starts a server, which takes keys in two batches.
func (r *rollback) takeOne() {
	r.d.Helper()
	batch := fmt.Sprint(r.taken / 2)
	s := newServer(r.d, r.settings("KGS_WORKER=false", "KGS_BATCH_MIN="+batch, "KGS_BATCH_MAX="+batch)...)
	s.start()
	await(r.d, patient, "the keys are taken", func() bool { return s.status().local() >= int64(r.taken) })
	load := newTraffic(r.d, s)
	load.start(250)
	r.servers, r.loads = append(r.servers, s), append(r.loads, load)
}

// epoch is that of the pool, as all agree before it goes back.
func (r *rollback) epoch() int64 {
	r.d.Helper()
	await(r.d, patient, "the pool is full", func() bool { return r.worker.status().full() })
	return r.worker.status().epoch()
}

// judge waits for the epoch that follows on epoch, Redis being back since then, and
// ends the row.
func (r *rollback) judge(back time.Time, epoch int64) {
	r.d.Helper()
	r.d.struck(1)
	for _, s := range append(r.servers, r.worker) {
		for s.status().epoch() <= epoch && time.Since(back) < renewal+time.Second {
			pass(r.d, poll)
		}
		if got, took := s.status().epoch(), time.Since(back); got <= epoch || took > renewal {
			r.d.Errorf("%v after Redis was back the epoch of %s is %d, which is not renewed in time: it was %d", took, s.program, got, epoch)
		}
	}
	r.d.note("new epoch after %v", time.Since(back).Round(10*time.Millisecond))
	r.useUp()
	var conflicts float64
	for i, s := range r.servers {
		r.loads[i].stop()
		conflicts += s.metric(`kgs_key_conflicts_total{source="pool"}`)
	}
	r.d.note("%v conflicts", conflicts)
	if most := len(r.servers) * r.taken; conflicts > float64(most) {
		r.d.Errorf("%v keys were handed out that were linked; of B*S = %d at most", conflicts, most)
	}
	end(r.d, postgresCensus(r.postgres.URL), r.servers, r.loads...)
	r.worker.stop()
	r.servers[0].audit()
}

// useUp has a server without local keys, and so one that needs the new epoch's, work.
func (r *rollback) useUp() {
	r.d.Helper()
	s := newServer(r.d, r.settings("KGS_WORKER=false")...)
	s.start()
	load := newTraffic(r.d, s)
	load.start(500)
	load.awaitMore(int64(r.d.times(2000)))
	r.servers, r.loads = append(r.servers, s), append(r.loads, load)
}

// follow makes a replica of the Redis behind client.
func follow(d *drill, client *redis.Client, master *testenv.Server) {
	d.Helper()
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		d.Fatal(err)
	}
	if err := client.Do(d.Context(), "REPLICAOF", host, port).Err(); err != nil {
		d.Fatal(err)
	}
	awaitInStep(d, client, master)
}

// awaitInStep waits until a replica has all that its master has.
func awaitInStep(d *drill, replica *redis.Client, master *testenv.Server) {
	d.Helper()
	offset := func(client *redis.Client, field string) string {
		for line := range strings.Lines(client.Info(d.Context(), "replication").Val()) {
			if value, ok := strings.CutPrefix(line, field+":"); ok {
				return value
			}
		}
		return ""
	}
	client := redisClient(d, master.Addr)
	await(d, patient, "the replica is in step", func() bool {
		return strings.Contains(replica.Info(d.Context(), "replication").Val(), "master_link_status:up") &&
			offset(replica, "slave_repl_offset") == offset(client, "master_repl_offset")
	})
}
