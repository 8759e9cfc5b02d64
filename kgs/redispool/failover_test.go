package redispool

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/kgstest"
)

// findsNewMaster is how long a client may need to find the new master of its pool. Without the hook
// reload, a client of a Cluster would call the former master for up to a minute after it last read the masters.
const findsNewMaster = 40 * time.Second

func TestRedisPoolSurvivesLossOfClusterMaster(t *testing.T) {
	t.Parallel()
	nodes, url := testenv.StartRedisCluster(t, 3)
	for _, node := range nodes {
		allow(t, openClient(t, node.Addr), "pool", append(slices.Clone(leastRights), "+cluster|slots", "+command")...)
	}
	client := openClient(t, "pool:secret@"+strings.TrimPrefix(url, "redis://"))
	p, _ := newTestPool(t, client, "holder")
	master, err := client.(*redis.ClusterClient).MasterForKey(t.Context(), p.keys[0])
	if err != nil {
		t.Fatal(err)
	}
	addr := master.Options().Addr
	testFailover(t, p, func() {
		for i, node := range nodes[:3] {
			if node.Addr == addr {
				node.Kill()
				awaitMaster(t, nodes[3+i])
			}
		}
	})
}

func TestRedisPoolSurvivesLossOfSentinelMaster(t *testing.T) {
	t.Parallel()
	master, replica := testenv.StartRedis(t), testenv.StartRedis(t)
	follow(t, openClient(t, replica.Addr), master.Addr)
	sentinel := testenv.StartSentinel(t, master)
	monitor := openClient(t, sentinel.Addr)
	kgstest.Await(t, "the Sentinel has found the replica", func() bool {
		known, err := monitor.Do(t.Context(), "SENTINEL", "REPLICAS", "main").Slice()
		return err == nil && len(known) == 1
	})
	allow(t, monitor, "watcher", sentinelRights...)
	p, _ := newTestPool(t, openClient(t, sentinel.Addr+"?master_name=main&sentinel_username=watcher&sentinel_password=secret"), "holder")
	testFailover(t, p, func() {
		master.Kill()
		awaitMaster(t, replica)
	})
}

// awaitMaster waits until a replica has replaced its master.
func awaitMaster(t *testing.T, replica *testenv.Server) {
	t.Helper()
	client := openClient(t, replica.Addr)
	kgstest.Await(t, "the replica is a master", func() bool {
		return strings.Contains(client.Info(t.Context(), "replication").Val(), "role:master")
	})
}

// testFailover fills a pool and calls failOver, which returns when a replica has replaced the
// master. The pool must then report that it needs a new epoch, and must work after it was opened for
// the next epoch.
func testFailover(t *testing.T, p *Pool, failOver func()) {
	t.Helper()
	openEpoch(t, p, 1)
	mustPush(t, p, testRange(1, 0, 100))
	mustTake(t, p, 10)
	failOver()
	since := time.Now()
	kgstest.Await(t, "the pool is without an epoch", func() bool {
		_, err := p.Status(t.Context())
		return errors.Is(err, kgs.ErrNoEpoch)
	})
	if took := time.Since(since); took > findsNewMaster {
		t.Errorf("the client found the new master after %v, want at most %v", took, findsNewMaster)
	}
	openEpoch(t, p, 2)
	next := testRange(2, 100, 50)
	next.Epoch = 2
	mustPush(t, p, next)
	if b := mustTake(t, p, 100); len(b.Codes) != 50 || b.Codes[0] != kgstest.Codes(100, 101)[0] {
		t.Errorf("Take in the new epoch returned %d keys from %s on, want the 50 keys of this epoch", len(b.Codes), b.Codes[0])
	}
}
