package redispool

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

func TestRedisPoolStatusReportsCountsAndEvictionPolicy(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := openClient(t, server.Addr)
	p, _ := newTestPool(t, client, "holder")
	if s, err := p.Status(t.Context()); !errors.Is(err, kgs.ErrNoEpoch) || s.Policy != "noeviction" || s.RunID == "" {
		t.Errorf("Status of a pool that was never opened = %+v, %v, want ErrNoEpoch, a policy and a RunID", s, err)
	}
	openEpoch(t, p, 1)
	mustPush(t, p, testRange(1, 0, 100))
	mustTake(t, p, 30)
	b := mustTake(t, p, 10)
	kgstest.Settle(t, p, b, b.Codes, nil) // returned keys still count as taken
	want := Status{
		PoolStatus: kgs.PoolStatus{Keys: 70, Taken: 40, Pushed: 100, Epoch: 1},
		HighWater:  ledger.HighWaterMark{ID: 1, Next: map[int]int64{6: 100}},
	}
	for policy, evicts := range map[string]bool{"noeviction": false, "allkeys-lru": true, "volatile-ttl": true} {
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		want.Policy = policy
		got, err := p.Status(t.Context())
		want.RunID = got.RunID
		if diff := cmp.Diff(want, got); diff != "" || err != nil || got.Evicts() != evicts {
			t.Errorf("Status with Evicts %v and error %v (-want +got):\n%s", got.Evicts(), err, diff)
		}
	}
	openEpoch(t, p, 2)
	if got, err := p.Status(t.Context()); got.Taken != 0 || got.Keys != 0 || err != nil {
		t.Errorf("Status at the beginning of an epoch = %+v, %v, want no keys", got, err)
	}
}

// TestRedisPoolRefusesUnexpectedReplies checks that a reply of another form causes an error and not
// a panic.
func TestRedisPoolRefusesUnexpectedReplies(t *testing.T) {
	t.Parallel()
	p, _ := newTestPool(t, testenv.Redis(t), "holder")
	for _, script := range []string{
		`return {}`, `return {'run', 'open', 1, 'noeviction'}`,
		`return {1, 'open', 1, 'noeviction', {}}`, `return {'run', 'open', 'one', 'noeviction', {}}`,
		`return {'run', 'open', 1, 1, {}}`, `return {'run', 'open', 1, 'noeviction', 'fields'}`,
		`return {'run', 'open', 1, 'noeviction', {'epoch'}}`, `return {'run', 'open', 1, 'noeviction', {'epoch', 1}}`,
	} {
		p.scripts.status = redis.NewScript(script)
		if s, err := p.Status(t.Context()); !errors.Is(err, errReplyForm) {
			t.Errorf("Status after the reply of %s = %+v, %v, want errReplyForm", script, s, err)
		}
	}
	for _, script := range []string{`return {}`, `return {'1', '2'}`} {
		p.scripts.read = redis.NewScript(script)
		for entry, err := range p.Snapshot(t.Context()) {
			if !errors.Is(err, errReplyForm) {
				t.Errorf("Snapshot after the reply of %s yields %+v, %v, want errReplyForm", script, entry, err)
			}
		}
	}
}
