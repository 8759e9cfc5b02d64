package redispool

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
)

func TestParseURLReadsEveryParameter(t *testing.T) {
	t.Parallel()
	type options struct {
		Addrs                          []string
		DB                             int
		User, Password, Master         string
		SentinelUser, SentinelPassword string
		TLS, Cluster                   bool
	}
	tests := map[string]options{
		"redis://localhost":             {Addrs: []string{"localhost:6379"}},
		"redis://:s%40cret@h:1/3":       {Addrs: []string{"h:1"}, DB: 3, Password: "s@cret"},
		"rediss://u:p@h":                {Addrs: []string{"h:6379"}, User: "u", Password: "p", TLS: true},
		"redis://[::1]:7,[fe80::1]/":    {Addrs: []string{"[::1]:7", "[fe80::1]:6379"}},
		"redis://u:p@a:1,b:2,c":         {Addrs: []string{"a:1", "b:2", "c:6379"}, User: "u", Password: "p"},
		"redis://one:1?cluster=true":    {Addrs: []string{"one:1"}, Cluster: true},
		"redis://a,b:2/1?master_name=m": {Addrs: []string{"a:26379", "b:2"}, DB: 1, Master: "m"},
		"redis://a?master_name=m&sentinel_username=x&sentinel_password=y": {
			Addrs: []string{"a:26379"}, Master: "m", SentinelUser: "x", SentinelPassword: "y",
		},
	}
	for text, want := range tests {
		o, err := parseURL(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := options{
			o.Addrs, o.DB, o.Username, o.Password, o.MasterName,
			o.SentinelUsername, o.SentinelPassword, o.TLSConfig != nil, o.IsClusterMode,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestOpenClientRefusesInvalidURLs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "localhost:6379", "http://:hunter2@h", "redis://", "redis://:hunter2@h:port", "redis://:hunter2@h:99999",
		"redis://:hunter2@a,,b", "redis://:hunter2@h/x", "redis://:hunter2@h/-1", "redis://:hunter2@a,b/1",
		"redis://:hunter2%zz@h", "redis://:hunter2@h?sentinel_pasword=hunter2", "redis://h?cluster=hunter2",
		"redis://h?cluster=true&master_name=m&sentinel_password=hunter2", "redis:hunter2@h",
		"redis://user:12/hunter2@h", "redis://user:hunter2/x@h", "redis://hunter2:1/x@h",
	} {
		_, err := OpenClient(text)
		if err == nil {
			t.Errorf("%q was accepted", text)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error contains the password: %v", text, err)
		}
	}
}

// In a Cluster, a script may use only Redis keys of one slot.
func TestRedisPoolWorksOnCluster(t *testing.T) {
	t.Parallel()
	nodes, _ := testenv.StartRedisCluster(t, 1)
	cluster := openClient(t, nodes[0].Addr+"?cluster=true")
	if _, ok := cluster.(*redis.ClusterClient); !ok {
		t.Fatalf("OpenClient returned a %T, want a *redis.ClusterClient", cluster)
	}
	p, _ := newTestPool(t, cluster, "holder")
	openEpoch(t, p, 1)
	mustPush(t, p, testRange(1, 0, 30))
	b := mustTake(t, p, 10)
	if err := p.Settle(t.Context(), b, b.Codes, nil); err != nil {
		t.Error(err)
	}
	if _, err := p.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.Forget(t.Context(), 1, 2); err != nil {
		t.Error(err)
	}
	if err := p.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if list, _ := snapshot(t, p); len(list) != 30 {
		t.Errorf("the pool holds %d keys, want 30", len(list))
	}
}
