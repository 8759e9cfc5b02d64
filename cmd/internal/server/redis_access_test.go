package server

import (
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"keypool/cmd/internal/config"
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
	with := func(ca string) string {
		return "rediss://user:hunter2@" + tlsAddr + "?" + url.Values{"tls_ca": {ca}, "tls_cert": {cert}, "tls_key": {key}}.Encode()
	}
	for name, test := range map[string]struct{ url, got string }{
		"certificate of another authority": {with(other.CA), "certificate"},
		"no certificate of the client":     {"rediss://user:hunter2@" + tlsAddr + "?" + url.Values{"tls_ca": {own.CA}}.Encode(), "ended the TLS handshake"},
		"wrong password":                   {"redis://:hunter2hunter2@" + plain.Addr, "refuses the user or the password"},
		"no password":                      {"redis://" + plain.Addr, "refuses the user or the password"},
		"missing permission":               {"redis://few:hunter2@" + plain.Addr, "refuses a command"},
	} {
		for _, source := range []string{"redis-pool", "redis-incr"} {
			s := settings(t, sqliteURL(t), test.url)
			s.KeySource = source
			p, err := Start(t.Context(), s, slog.New(slog.DiscardHandler))
			if err == nil {
				err = p.Stop()
			}
			var setting *config.Error
			if !errors.As(err, &setting) || setting.Name != "REDIS_URL" || !strings.Contains(setting.Got, test.got) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s, %s: the start fails with %v, want a config.Error of REDIS_URL that contains %q", source, name, err, test.got)
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
