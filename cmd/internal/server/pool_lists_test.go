package server

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"keypool/cmd/internal/config"
	"keypool/internal/testenv"
	"keypool/web/admin"
)

// listsIn returns the names of the lists of codes in Redis.
func listsIn(t *testing.T, redisURL, prefix string) []string {
	t.Helper()
	opts, err := redis.ParseURL(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opts)
	defer client.Close()
	lists, err := client.Keys(t.Context(), prefix+":{*}:keys").Result()
	if err != nil {
		t.Fatal(err)
	}
	return lists
}

// TestChangingNumberOfPoolListsLosesNoKeys starts a server with one list, then with three lists, and then with one list again. No
// key is lost, because servers also take the keys of lists that are not refilled.
func TestChangingNumberOfPoolListsLosesNoKeys(t *testing.T) {
	t.Parallel()
	database, redisURL := testenv.PostgresURL(t), testenv.RedisURL(t)
	// The list that had the whole pool keeps its keys, and each of the two new lists gets a third of the capacity.
	for _, step := range []struct {
		shards, lists int
		keys          int64
	}{{1, 1, 9000}, {3, 3, 15000}, {1, 3, 15000}} {
		s := settings(t, database, redisURL)
		s.PoolShards = step.shards
		r := start(t, s)
		r.await("full lists", func(s admin.Status) bool { return s.PoolKeys != nil && *s.PoolKeys >= step.keys })
		code := r.shorten("https://go.dev/")
		r.stop()
		if lists := listsIn(t, redisURL, "keypool"); len(lists) != step.lists {
			t.Errorf("with KGS_POOL_SHARDS=%d, Redis has the lists %v, want %d", step.shards, lists, step.lists)
		}
		if a := auditJSON(t, database, redisURL); !a.Closes || a.Abandoned["epoch"] != 0 {
			t.Errorf("with KGS_POOL_SHARDS=%d, after the link %s, the audit is %+v; want accounts that close without lost keys", step.shards, code, a)
		}
	}
}

func TestDeploymentsWithDifferentPrefixesShareRedis(t *testing.T) {
	t.Parallel()
	redisURL := testenv.RedisURL(t)
	for _, prefix := range []string{"keypool", "staging"} {
		s := settings(t, testenv.PostgresURL(t), redisURL)
		s.Prefix = config.Prefix(prefix)
		start(t, s).await("a full pool", fullWithBatch)
		if lists := listsIn(t, redisURL, prefix); len(lists) != 1 {
			t.Errorf("Redis has the lists %v with the prefix %s, want one", lists, prefix)
		}
	}
	if all := listsIn(t, redisURL, "*"); len(all) != 2 {
		t.Errorf("Redis has the lists %v, want two", all)
	}
}
