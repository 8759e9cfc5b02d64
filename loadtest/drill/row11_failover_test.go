//go:build drill

package drill

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
)

// The master of a Redis that is replicated dies, and what is promoted has not heard of
// the last 200,000 keys that were taken. Whoever does it tells the programs by changing
// where the address leads.
func redisFailsOver(d *drill) {
	pair := newPair(d)
	proxy := newProxy(d, pair.master.Addr)
	pair.failOver("redis://"+proxy.addr, func() {
		if err := pair.behind.Do(d.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
			d.Fatal(err)
		}
		proxy.lead(pair.replica.Addr)
	})
}

// The same by a Sentinel, which finds out, promotes and tells by itself.
func sentinelFailsOver(d *drill) {
	pair := newPair(d)
	sentinel := startSentinel(d, pair.master)
	pair.failOver("redis://"+sentinel+"?master_name=main", func() {
		await(d, patient, "the replica is promoted", func() bool {
			return strings.Contains(pair.behind.Info(d.Context(), "replication").Val(), "role:master")
		})
	})
}

// pair is a master and a replica that has all of it.
type pair struct {
	d               *drill
	master, replica *testenv.Server
	behind          *redis.Client // of the replica
}

func newPair(d *drill) *pair {
	d.Helper()
	p := &pair{d: d, master: testenv.StartRedis(d), replica: testenv.StartRedis(d)}
	p.behind = redisClient(d, p.replica.Addr)
	follow(d, p.behind, p.master)
	return p
}

// failOver has servers work with the pair by url, freezes the replica while they take
// keys, kills the master, and has promote do the rest.
func (p *pair) failOver(url string, promote func()) {
	p.d.Helper()
	r := newRollback(p.d, url)
	awaitInStep(p.d, p.behind, p.master)
	p.replica.Pause()
	// The link is cut too: what is on it already the replica would still read.
	if err := redisClient(p.d, p.master.Addr).Do(p.d.Context(), "CLIENT", "KILL", "TYPE", "replica").Err(); err != nil {
		p.d.Fatal(err)
	}
	r.take()
	epoch := r.epoch()
	p.master.Kill()
	p.replica.Resume()
	promote()
	r.judge(time.Now(), epoch)
}

// startSentinel starts a Sentinel that watches master, and returns its address when it
// knows of a replica.
func startSentinel(d *drill, master *testenv.Server) (addr string) {
	d.Helper()
	addr = freeAddr(d)
	dir := d.TempDir()
	config := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor main 127.0.0.1 %d 1\n"+
		"sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 1000\n",
		portOf(d, addr), dir, portOf(d, master.Addr))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil { // Sentinel writes to it as well
		d.Fatal(err)
	}
	startProcess(d, exec.Command("redis-server", config, "--sentinel"), filepath.Join(dir, "log"))
	client := redisClient(d, addr)
	await(d, patient, "the Sentinel knows the replica", func() bool {
		known, err := client.Do(d.Context(), "SENTINEL", "REPLICAS", "main").Slice()
		return err == nil && len(known) == 1
	})
	return addr
}
