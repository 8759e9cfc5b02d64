package redispool

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
	"keypool/kgs"
)

// leastRights are the commands that docs/configuration.md lists for the Redis user of a pool.
var leastRights = strings.Fields("+eval +evalsha +info +hget +hset +hmget +hgetall +hkeys +hvals +hdel +hincrby +lpop +rpush +llen +lrange +time +unlink")

// sentinelRights are the commands that docs/configuration.md lists for the user of the Sentinels.
var sentinelRights = strings.Fields("allchannels +sentinel|get-master-addr-by-name +sentinel|replicas +sentinel|sentinels +subscribe")

// allow creates a Redis user that may use the keys of a pool and the given commands.
func allow(t *testing.T, admin redis.UniversalClient, user string, rules ...string) {
	t.Helper()
	setUser := []any{"ACL", "SETUSER", user, "on", ">secret", "~keypool:*", "resetchannels", "-@all"}
	for _, rule := range rules {
		setUser = append(setUser, rule)
	}
	if err := admin.Do(t.Context(), setUser...).Err(); err != nil {
		t.Fatalf("%v: %v", setUser, err)
	}
}

// useEverything calls every operation of a pool and returns the first error.
func useEverything(t *testing.T, p *Pool, book *stubLedger) error {
	t.Helper()
	ctx := t.Context()
	status, err := p.Status(ctx)
	if status.RunID == "" {
		return err
	}
	r, dead := testRange(1, 0, 40), New(p.client, Config{Holder: "dead", Space: p.cfg.Space, Ledger: book})
	for _, call := range []func() error{
		func() error { return p.Open(ctx, 1, status.RunID) },
		func() error { _, err := push(ctx, p, r, r.Lo, r.Hi); return err },
		func() error { return p.Forget(ctx, 1, 1) },
		func() error { return takeAndSettle(ctx, p, 20) },
		func() error { _, err := dead.Take(ctx, 5); return err },
		func() error { _, err := p.Sweep(ctx); return err },
		func() error { _, err := p.Epoch(ctx); return err },
		func() error {
			for _, err := range p.Snapshot(ctx) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		func() error { return p.Release(ctx) },
		func() error { return p.Open(ctx, 2, status.RunID) },
	} {
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}

// takeAndSettle takes a batch and settles it with an unused and a lost key.
func takeAndSettle(ctx context.Context, p *Pool, n int) error {
	b, err := p.Take(ctx, n)
	if err != nil {
		return err
	}
	return p.Settle(ctx, b, b.Codes[1:2], b.Codes[:1])
}

func TestRedisPoolNeedsExactlyDocumentedRights(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	admin := openClient(t, server.Addr)
	allow(t, admin, "least", leastRights...)
	p, book := newTestPool(t, openClient(t, "least:secret@"+server.Addr), "holder")
	if err := useEverything(t, p, book); err != nil {
		t.Errorf("a user with the rights %v cannot use the pool: %v", leastRights, err)
	}
	if len(book.ranges[kgs.ReasonCrash]) == 0 || len(book.ranges[kgs.ReasonLostReply]) == 0 {
		t.Errorf("the sweep abandoned %v, so not every operation has run", book.ranges)
	}
	allow(t, admin, "select", append(slices.Clone(leastRights), "+select")...)
	if p, book := newTestPool(t, openClient(t, "select:secret@"+server.Addr+"/1"), "holder"); useEverything(t, p, book) != nil {
		t.Error("a user with +select cannot use the pool in database 1")
	}
	// This is the control: if the user lacks one of the rights, an operation must fail.
	for i, right := range leastRights {
		if right == "+eval" || right == "+evalsha" {
			continue // go-redis calls EVAL only while Redis does not know a script
		}
		if err := admin.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		allow(t, admin, "less"+right, slices.Delete(slices.Clone(leastRights), i, i+1)...)
		p, book := newTestPool(t, openClient(t, "less"+right+":secret@"+server.Addr), "holder")
		if err := useEverything(t, p, book); err == nil {
			t.Errorf("a user without %s can use the pool", right)
		}
	}
}

// Without CheckWrites, a worker would begin an epoch in the ledger in each failed attempt to open the pool.
func TestCheckWritesFailsWithoutRightsThatOpenNeeds(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	admin := openClient(t, server.Addr)
	for _, missing := range []string{"", "+unlink", "+hset", "+hget", "+hkeys", "+time"} {
		rights := slices.DeleteFunc(slices.Clone(leastRights), func(right string) bool { return right == missing })
		if err := admin.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		allow(t, admin, "less"+missing, rights...)
		p, _ := newTestPool(t, openClient(t, "less"+missing+":secret@"+server.Addr), "holder")
		status, err := p.Status(t.Context()) // fails, because the pool is not open
		if status.RunID == "" {
			t.Fatal(err)
		}
		check, open := p.CheckWrites(t.Context(), status.RunID), p.Open(t.Context(), 1, status.RunID)
		if (check == nil) != (missing == "") || (open == nil) != (missing == "") {
			t.Errorf("without %q, CheckWrites returned %v and Open returned %v", missing, check, open)
		}
	}
}

// A Take that removed keys without a record of them would lose keys in each attempt.
func TestTakeWithoutRightsRemovesNoKeys(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	admin := openClient(t, server.Addr)
	owner, _ := newTestPool(t, admin, "owner")
	openEpoch(t, owner, 1)
	mustPush(t, owner, testRange(1, 0, 100))
	for _, missing := range []string{"+hset", "+hincrby", "+hdel", "+lpop"} {
		rights := slices.DeleteFunc(slices.Clone(leastRights), func(right string) bool { return right == missing })
		allow(t, admin, "less"+missing, rights...)
		p, _ := newTestPool(t, openClient(t, "less"+missing+":secret@"+server.Addr), "holder"+missing)
		if b, err := p.Take(t.Context(), 10); err == nil {
			t.Errorf("without %s, Take = %v", missing, b)
		}
	}
	list, batches := snapshot(t, owner)
	if len(list)+len(batches) != 100 {
		t.Errorf("the pool has %d keys and %d keys in batches after refused takes, want 100 keys", len(list), len(batches))
	}
}
