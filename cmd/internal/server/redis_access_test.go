package server

import (
	"bytes"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/internal/testenv"
)

// TestStartErrorSaysWhyRedisAccessFails starts a server with a REDIS_URL that Redis or the client refuses. The error must say why,
// without the password.
func TestStartErrorSaysWhyRedisAccessFails(t *testing.T) {
	t.Parallel()
	own, other := testenv.NewAuthority(t), testenv.NewAuthority(t)
	tlsAddr := testenv.StartRedisTLS(t, own)
	cert, key := own.Issue()
	plain := testenv.StartRedis(t)
	setUser(t, plain, "few", "on", ">hunter2", "~keypool:*", "+eval", "+evalsha")
	setUser(t, plain, "default", "resetpass", ">hunter2")
	open, another := testenv.StartRedis(t), testenv.StartRedis(t)
	sentinel, otherSentinel := testenv.StartSentinel(t, open), testenv.StartSentinel(t, open)
	with := func(ca string) string {
		return "rediss://user:hunter2@" + tlsAddr + "?" + url.Values{"tls_ca": {ca}, "tls_cert": {cert}, "tls_key": {key}}.Encode()
	}
	for name, test := range map[string]struct{ url, got string }{
		"certificate of another authority":      {with(other.CA), "certificate"},
		"no certificate of the client":          {"rediss://user:hunter2@" + tlsAddr + "?" + url.Values{"tls_ca": {own.CA}}.Encode(), "ended the TLS handshake"},
		"wrong password":                        {"redis://:hunter2hunter2@" + plain.Addr, "refuses the user or the password"},
		"no password":                           {"redis://" + plain.Addr, "refuses the user or the password"},
		"several Sentinels without master_name": {"redis://" + sentinel.Addr + "," + otherSentinel.Addr, "not a Redis Cluster"},
		"servers without a Cluster":             {"redis://" + open.Addr + "," + another.Addr, "not a Redis Cluster"},
		"Sentinel without master_name":          {"redis://" + sentinel.Addr, "a Redis Sentinel"},
		"missing permission":                    {"redis://few:hunter2@" + plain.Addr, "refuses a command"},
	} {
		for _, source := range []string{"redis-pool", "redis-incr"} {
			err := startError(t, source, test.url)
			var setting *config.Error
			if !errors.As(err, &setting) || setting.Name != "REDIS_URL" || !strings.Contains(setting.Got, test.got) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s, %s: the start fails with %v, want a config.Error of REDIS_URL that contains %q", source, name, err, test.got)
			}
		}
	}
}

// If only one of client and Redis uses TLS, Redis seems to be unreachable. The server starts, and its log says what to check.
func TestLogAdvisesToCheckTLSOfRedis(t *testing.T) {
	t.Parallel()
	own := testenv.NewAuthority(t)
	for url, want := range map[string]string{
		"redis://" + testenv.StartRedisTLS(t, own):                     "if it expects TLS, set REDIS_URL to rediss://",
		"rediss://" + testenv.StartRedis(t).Addr + "?tls_ca=" + own.CA: "if it does not use TLS, set REDIS_URL to redis://",
	} {
		var log bytes.Buffer
		p, err := Start(t.Context(), settings(t, sqliteURL(t), url), slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s: the log does not contain %q:\n%s", url, want, &log)
		}
	}
}

// startError starts a server with a key source and a REDIS_URL, and returns the error of [refused].
func startError(t *testing.T, source, url string) error {
	t.Helper()
	s := settings(t, sqliteURL(t), url)
	s.KeySource = source
	return refused(t, func() (*program.Program, error) { return Start(t.Context(), s, slog.New(slog.DiscardHandler)) })
}

// refused starts a program that must not start, and returns the error of the start. It starts the program up to ten times,
// because a start succeeds if its checks do not get an answer within their time limits.
func refused(t *testing.T, start func() (*program.Program, error)) error {
	t.Helper()
	for range 10 {
		p, err := start()
		if err != nil {
			return err
		}
		_ = p.Stop() // may fail, because the program should not have started
	}
	return nil
}

// If a client asks a node of a Cluster for a Redis key that another node has, the answer is a redirect to the other node. A client
// without cluster=true cannot follow the redirect. With cluster=true, the user of docs/configuration.md has all permissions that a
// start needs.
func TestStartAcceptsClusterOnlyWithClusterParameter(t *testing.T) {
	t.Parallel()
	nodes, url := testenv.StartRedisCluster(t, 3)
	for _, node := range nodes {
		rules := strings.Fields("on >hunter2 ~keypool:* resetchannels -@all +eval +evalsha +info +hget +hset +hmget +hgetall +hkeys +hvals +hdel +hincrby +lpop +rpush +llen +lrange +time +unlink +command +cluster|slots +incrby")
		var args []any
		for _, rule := range rules {
			args = append(args, rule)
		}
		setUser(t, node, "few", args...)
	}
	few := strings.Replace(url, "://", "://few:hunter2@", 1)
	for _, source := range []string{"redis-pool", "redis-incr"} {
		s := settings(t, sqliteURL(t), few)
		s.KeySource = source
		start(t, s).stop()
		for _, node := range nodes[:3] {
			var setting *config.Error
			if err := startError(t, source, "redis://"+node.Addr); !errors.As(err, &setting) || setting.Name != "REDIS_URL" || !strings.Contains(setting.Takes, "cluster=true") {
				t.Errorf("%s: the start with one node fails with %v, want a config.Error of REDIS_URL that names cluster=true", source, err)
			}
		}
	}
}

func setUser(t *testing.T, server *testenv.Server, user string, rules ...any) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	if err := errors.Join(client.Do(t.Context(), append([]any{"ACL", "SETUSER", user}, rules...)...).Err(), client.Close()); err != nil {
		t.Fatal(err)
	}
}
