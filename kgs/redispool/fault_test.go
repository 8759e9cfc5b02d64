package redispool

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

// openClient returns a client with the settings that the programs use, but with long time limits.
func openClient(t *testing.T, addr string) redis.UniversalClient {
	t.Helper()
	return openURL(t, "redis://"+addr)
}

func openURL(t *testing.T, rawURL string) redis.UniversalClient {
	t.Helper()
	address, err := ParseURL(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	o := &address.opts
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = time.Minute, time.Minute, time.Minute, time.Minute
	client := address.Open()
	testenv.Patient(client)
	kgstest.CloseAfter(t, client.Close)
	return client
}

// openProgramClient returns a connected client with the settings and the time limits that the programs use.
func openProgramClient(t *testing.T, rawURL string) redis.UniversalClient {
	t.Helper()
	client, err := OpenClient(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	kgstest.CloseAfter(t, client.Close)
	kgstest.Await(t, "the client is connected", func() bool { return client.Ping(t.Context()).Err() == nil })
	return client
}

// follow makes the Redis behind client a replica of master, and waits until the two are in sync.
func follow(t *testing.T, client redis.UniversalClient, master string) {
	t.Helper()
	host, port, _ := net.SplitHostPort(master)
	if err := client.Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
		t.Fatal(err)
	}
	kgstest.Await(t, "the replica has caught up", func() bool {
		return strings.Contains(client.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
}

func promote(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	if err := client.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
}

// A rollback is a function that sets a Redis back to older data. It calls fill and then take with a
// client of the Redis. Then it makes the Redis lose the changes of take, and returns a client of
// the Redis with the older data.
type rollback func(t *testing.T, fill, take func(redis.UniversalClient)) redis.UniversalClient

func restartFromSnapshot(t *testing.T, fill, take func(redis.UniversalClient)) redis.UniversalClient {
	server := testenv.StartRedis(t, "--appendonly", "no")
	client := openClient(t, server.Addr)
	fill(client)
	if err := client.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	take(client)
	server.Kill()
	server.Restart()
	return client
}

// replicated is a master with a filled pool, and a replica that has all of its data.
type replicated struct {
	master, replica *testenv.Server
	client, behind  redis.UniversalClient // client calls the master, and behind calls the replica
}

func startReplicated(t *testing.T, fill func(redis.UniversalClient)) replicated {
	t.Helper()
	r := replicated{master: testenv.StartRedis(t), replica: testenv.StartRedis(t)}
	r.client, r.behind = openClient(t, r.master.Addr), openClient(t, r.replica.Addr)
	follow(t, r.behind, r.master.Addr)
	fill(r.client)
	list := keyNames(DefaultPrefix, "default")[1]
	kgstest.Await(t, "the replica has the keys", func() bool {
		return r.behind.LLen(t.Context(), list).Val() == r.client.LLen(t.Context(), list).Val()
	})
	return r
}

func promoteLaggingReplica(t *testing.T, fill, take func(redis.UniversalClient)) redis.UniversalClient {
	r := startReplicated(t, fill)
	r.replica.Pause()
	// Close the connection, so that the replica cannot read data that the master has already sent.
	if err := r.client.Do(t.Context(), "CLIENT", "KILL", "TYPE", "replica").Err(); err != nil {
		t.Fatal(err)
	}
	take(r.client)
	r.master.Kill()
	r.replica.Resume()
	promote(t, r.behind)
	return r.behind
}

// failBack makes a master a replica of a Redis that lags behind, and then promotes the former master
// again. Its Redis process is still the same, so its run_id does not change, but its data is older.
func failBack(t *testing.T, fill, take func(redis.UniversalClient)) redis.UniversalClient {
	r := startReplicated(t, fill)
	promote(t, r.behind)
	take(r.client)
	follow(t, r.client, r.replica.Addr)
	promote(t, r.client)
	return r.client
}

func TestRedisPoolRefusesUseAfterRollback(t *testing.T) {
	t.Parallel()
	ways := map[string]rollback{
		"restart from a snapshot":                 restartFromSnapshot,
		"promotion of a replica that lags behind": promoteLaggingReplica,
		"fail-back": failBack,
	}
	for name, comeBack := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testRollback(t, comeBack)
		})
	}
}

func testRollback(t *testing.T, comeBack rollback) {
	r, late := testRange(1, 0, 1000), testRange(2, 1000, 1000)
	var before *kgs.Batch
	client := comeBack(t, func(c redis.UniversalClient) {
		p, _ := newTestPool(t, c, "before")
		openEpoch(t, p, 1)
		mustPush(t, p, r)
	}, func(c redis.UniversalClient) {
		p, _ := newTestPool(t, c, "before")
		before = mustTake(t, p, 100)
	})
	p, _ := newTestPool(t, client, "after")
	wantNoEpoch(t, p, late)

	// This part is the control. If the test stores the present name of the history in the pool, the pool hands out keys
	// a second time.
	status, _ := p.Status(t.Context())
	opened := client.HGet(t.Context(), p.keys[0], "run").Val()
	client.HSet(t.Context(), p.keys[0], "run", status.RunID)
	if twice := mustTake(t, p, 100); !slices.Equal(twice.Codes, before.Codes) {
		t.Error("the data of Redis is not older than before, so this test proves nothing")
	}
	client.HSet(t.Context(), p.keys[0], "run", opened)

	if err := p.Settle(t.Context(), before, before.Codes, nil); err != nil {
		t.Errorf("Settle of a batch that was abandoned with its pool: %v", err)
	}
	openEpoch(t, p, 2)
	if _, err := push(t.Context(), p, late, late.Lo, late.Hi); !errors.Is(err, kgs.ErrFenced) {
		t.Errorf("Push of a range of the old epoch: %v, want ErrFenced", err)
	}
	late.Epoch = 2
	mustPush(t, p, late)
	if b := mustTake(t, p, 2000); !slices.Equal(b.Codes, kgstest.Codes(1000, 2000)) {
		t.Errorf("Take in the new epoch returned %d keys, the first is %s; want the 1000 keys of the new epoch", len(b.Codes), b.Codes[0])
	}
}

// wantNoEpoch checks that the methods of a pool that is not open fail with ErrNoEpoch.
func wantNoEpoch(t *testing.T, p *Pool, r ledger.Reservation) {
	t.Helper()
	status, err := p.Status(t.Context())
	if !errors.Is(err, kgs.ErrNoEpoch) || status.RunID == "" || status.Epoch != 0 {
		t.Errorf("Status = %+v, %v, want epoch 0, a RunID, and ErrNoEpoch", status, err)
	}
	_, takeErr := p.Take(t.Context(), 10)
	_, pushErr := push(t.Context(), p, r, r.Lo, r.Hi)
	_, sweepErr := p.Sweep(t.Context())
	var readErr error
	for _, readErr = range p.Snapshot(t.Context()) {
		break
	}
	for name, err := range map[string]error{
		"Take": takeErr, "Push": pushErr, "Sweep": sweepErr, "Snapshot": readErr,
		"Forget": p.Forget(t.Context(), r.Epoch, 1),
	} {
		if !errors.Is(err, kgs.ErrNoEpoch) {
			t.Errorf("%s: %v, want ErrNoEpoch", name, err)
		}
	}
}

func TestRedisPoolRefusesUseAfterFlush(t *testing.T) {
	t.Parallel()
	p, _ := newOpenPool(t)
	r := testRange(1, 0, 100)
	mustPush(t, p, r)
	if err := p.client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	wantNoEpoch(t, p, r)
}

// A Redis at its memory limit hands out keys and accepts returned keys, but it accepts no new
// keys.
func TestRedisPoolAtMemoryLimitRefusesOnlyPushes(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	p, _ := newTestPool(t, openClient(t, server.Addr), "holder")
	openEpoch(t, p, 1)
	r := testRange(1, 0, 200)
	if _, err := push(t.Context(), p, r, 0, 100); err != nil {
		t.Fatal(err)
	}
	if err := p.client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if mark, err := push(t.Context(), p, r, 100, 200); err == nil {
		t.Errorf("Push into a Redis at its memory limit = %d, want an error", mark)
	}
	if status, err := p.Status(t.Context()); status.Keys != 100 || err != nil {
		t.Errorf("Status = %+v, %v, want 100 keys because the push was refused", status, err)
	}
	b := mustTake(t, p, 100)
	if err := p.Settle(t.Context(), b, b.Codes[50:], b.Codes[:1]); err != nil {
		t.Errorf("Settle: %v", err)
	}
	if err := p.Claim(t.Context()); err != nil {
		t.Errorf("Claim: %v, but a live worker must keep its pool", err)
	}
	list, batches := snapshot(t, p)
	if !slices.Equal(list, kgstest.Codes(50, 100)) || !slices.Equal(batches, kgstest.Codes(0, 1)) {
		t.Errorf("the list has %v and the codes on record are %v, want the codes 50 to 99 and the code 0",
			list, batches)
	}
}

func TestRedisPoolCallsMayBeRepeatedAfterLostReplies(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := kgstest.NewCuttingProxy(t, server.Addr)
	p, _ := newTestPool(t, openClient(t, proxy.Listener.Addr().String()), "holder")
	openEpoch(t, p, 1)
	r := testRange(1, 0, 100)
	// This push and this take make Redis cache both scripts, so that each call below needs one request.
	mustPush(t, p, testRange(2, 100, 1))
	mustTake(t, p, 1)

	proxy.Cut.Store(true)
	if _, err := push(t.Context(), p, r, 0, 60); err == nil {
		t.Fatal("the reply to the push was not lost")
	}
	if mark, err := push(t.Context(), p, r, 0, 60); mark != 60 || err != nil {
		t.Errorf("the repeated Push = %d, %v, want 60", mark, err)
	}
	proxy.Cut.Store(true)
	if _, err := p.Take(t.Context(), 10); err == nil {
		t.Fatal("the reply to the take was not lost")
	}
	b := mustTake(t, p, 20)
	if !slices.Equal(b.Codes, kgstest.Codes(0, 10)) {
		t.Errorf("the repeated Take returned %v, want the ten keys of the first Take", b.Codes)
	}
	// The request of the first Take may arrive even after the batch was settled.
	if err := p.Settle(t.Context(), b, nil, nil); err != nil {
		t.Fatal(err)
	}
	if late, err := p.run(t.Context(), p.scripts.take, "holder", b.ID, 10).Text(); late != "" || err != nil {
		t.Errorf("a late Take returned %q, %v, want no codes", late, err)
	}
	list, batches := snapshot(t, p)
	if !slices.Equal(list, kgstest.Codes(10, 60)) || len(batches) != 1 {
		t.Errorf("the list has %v and the batches have %v, want the codes 10 to 59 and one other code", list, batches)
	}
}
