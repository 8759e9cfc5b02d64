package app

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// runShortener runs the program with flags, as a user would, and gives what it says.
func runShortener(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = Shortener(t.Context(), "v-test", args, &out, &errs)
	return status, out.String(), errs.String()
}

// runWrong is runShortener with settings that it is not to take: should it take them all
// the same, it ends before it serves.
func runWrong(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	status = Shortener(ctx, "v-test", args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestSettingsThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, value string
		takes       string // a part of the advice
	}{
		{"LISTEN_ADDR", "8080", "[host]:port"},
		{"LISTEN_ADDR", ":http", "[host]:port"},
		{"LISTEN_ADDR", ":65536", "[host]:port"},
		{"ADMIN_ADDR", "", "[host]:port"},
		{"BASE_URL", "go.example", "http://host"},
		{"BASE_URL", "ftp://go.example", "http://host"},
		{"BASE_URL", "https://go.example/links", "without a path"},
		{"BASE_URL", "https://go.example?x=1", "without a path"},
		{"BASE_URL", "https://go.example/?x=1", `got "https://go.example/..."`},
		{"BASE_URL", "https://go.example:99999", "http://host"},
		{"BASE_URL", "https://go..example", "http://host"},
		{"TRUSTED_PROXIES", "10.0.0.0/8,localhost", "CIDRs"},
		{"DATABASE_URL", "mysql://host/db", "sqlite:PATH or postgres://"},
		{"DATABASE_URL", "sqlite:", "sqlite:PATH"},
		{"DATABASE_URL", "sqlite::memory:", "would lose every link"},
		{"DATABASE_URL", "postgres://host:port/db", "postgres://user:password@host"},
		{"REDIS_URL", "http://host", "redis://"},
		{"KEY_SOURCE", "magic", "redis-pool, memory-pool, ledger, "},
		{"KEY_SOURCE", "redis-pool", "REDIS_URL"},
		{"KEY_SOURCE", "redis-incr", "REDIS_URL"},
		{"KEY_SOURCE", "postgres-pool", "a PostgreSQL DATABASE_URL"},
		{"KEY_SOURCE", "kgs", "KGS_URL"},
		{"KGS_URL", "http://a:token@localhost:99999", "http://client:token@host[:port]"},
		{"TICKET_DATABASE_URLS", "postgres://a:b@c/d", "two databases"},
		{"TICKET_DATABASE_URLS", "postgres://a:b@c/d,postgres://a:b@c/e,postgres://a:b@c/f", "two databases"},
		{"KGS_SECRET", "abcd", "16 or 32 bytes as hex"},
		{"KGS_SECRET", strings.Repeat("g", 32), "16 or 32 bytes as hex"},
		{"KGS_PERMUTE", "yes", "true or false"},
		{"KGS_WORKER", "0", "true or false"},
		{"CODE_LENGTH", "2", "from 3 to 10"},
		{"CODE_LENGTH", "six", "from 3 to 10"},
		{"KGS_POOL_CAPACITY", "-1", "whole number"},
		{"KGS_RESTART_BELOW", "101%", "percentage"},
		{"KGS_RESTART_BELOW", "NaN%", "percentage"},
		{"KGS_RESTART_BELOW", "95%", "at most 90%"},
		{"KGS_WORKER", "false", "memory-pool"},
		{"KGS_PAGE_BELOW", "2000000", "capacity of 1000000"},
		{"KGS_PAGE_BELOW", "30%", "not above KGS_RESTART_BELOW"},
		{"KGS_BATCH_MIN", "0", "whole number"},
		{"KGS_BATCH_MAX", "50", "not below KGS_BATCH_MIN"},
		{"FALLBACK", "hope", "random, ledger or none"},
		{"ALERT_WEBHOOK_URL", "hooks.example/abc", "https://host"},
		{"ALERT_WEBHOOK_URL", "ftp://hooks.example/abc", "https://host"},
		{"ALERT_WEBHOOK_URL", "https:///abc", "https://host"},
		{"MIGRATE", "maybe", "true or false"},
		{"LOG_LEVEL", "loud", "debug, info, warn or error"},
		{"LOG_FORMAT", "xml", "text or json"},
	}
	for _, tt := range tests {
		t.Run(tt.name+"="+tt.value, func(t *testing.T) {
			t.Parallel()
			flag := "--" + strings.ReplaceAll(strings.ToLower(tt.name), "_", "-")
			status, stdout, stderr := runWrong(t, flag+"="+tt.value)
			if status != 2 || stdout != "" {
				t.Errorf("exit status %d, stdout %q; want 2 and silence", status, stdout)
			}
			if strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tt.name) || !strings.Contains(stderr, tt.takes) {
				t.Errorf("stderr %q: want one line that names %s and says %q", stderr, tt.name, tt.takes)
			}
		})
	}
}

func TestSettingsErrorsKeepSecrets(t *testing.T) {
	t.Parallel()
	const secret = "4711" // it may be taken for a port
	for _, flag := range []string{
		"--database-url=postgres://user:" + secret + "@host:badport/db",
		"--database-url=postgres://user@host/db?password=" + secret + "&sslmode=never",
		"--database-url=mysql://user:" + secret + "@host/db",
		"--database-url=%%" + secret,
		"--redis-url=redis://:" + secret + "@host:port",
		"--redis-url=rediss://:" + secret + "@",
		"--kgs-secret=" + secret,
		"--base-url=https://user:" + secret + "@host",
		"--alert-webhook-url=ftp://host/" + secret,
		"--alert-webhook-url=https://host:port/" + secret,
		"--alert-webhook-url=host/" + secret,
		"--database-url=keypool:" + secret + "@db:5432/keypool",
		"--redis-url=default:" + secret + "@redis:6379",
		"--redis-url=redis://u:12/" + secret + "@host",
		"--redis-url=redis://:" + secret + "?rest@host",
		"--redis-url=redis://user:begins@" + secret + "?rest@host",
		"--kgs-url=ftp://client:" + secret + "#rest@host",
	} {
		status, stdout, stderr := runWrong(t, flag)
		if status != 2 || strings.Contains(stdout+stderr, secret) {
			t.Errorf("%s: exit status %d, stderr %q", flag, status, stderr)
		}
	}
}

func TestSettingsDefaults(t *testing.T) {
	t.Parallel()
	defaults := Flags{
		AdminAddr: "127.0.0.1:8081", DatabaseURL: "sqlite:data/shortener.db", KGSPermute: "true", CodeLength: "6",
		PoolCapacity: "1000000", RestartBelow: "20%", PageBelow: "1000", Migrate: "true", LogLevel: "info",
	}
	serve := ServeFlags{
		ListenAddr: ":8080", KGSWorker: "true", BatchMin: "100", BatchMax: "100000", Fallback: "random",
		KGSTake: "delete", HashAlgorithm: "sha256",
		BaseURL: "https://bücher.example/", TrustedProxies: "10.1.2.3/8, ::1/128",
	}
	s, err := serve.Parse(defaults)
	if err != nil {
		t.Fatal(err)
	}
	if s.RestartBelow != 200_000 || s.PageBelow != 1000 || s.KeySource != "memory-pool" || s.BaseURL != "https://xn--bcher-kva.example" {
		t.Errorf("restart below %d, page below %d, key source %s, base URL %s", s.RestartBelow, s.PageBelow, s.KeySource, s.BaseURL)
	}
	if got := s.TrustedProxies; len(got) != 2 || got[0].String() != "10.0.0.0/8" {
		t.Errorf("trusted proxies %v", got)
	}
	defaults.RedisURL = "redis://localhost"
	if s, err = serve.Parse(defaults); err != nil || s.KeySource != "redis-pool" {
		t.Errorf("with a Redis the key source is %q, %v", s.KeySource, err)
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	if status, stdout, _ := runShortener(t, "--version"); status != 0 || stdout != "v-test\n" {
		t.Errorf("--version: %d, %q", status, stdout)
	}
	status, help, _ := runShortener(t, "--help")
	for _, name := range append(keySourceNames(), "LISTEN_ADDR", "KGS_POOL_CAPACITY", "FALLBACK", "ALERT_WEBHOOK_URL", "migrate", "audit", "delete") {
		if status != 0 || !strings.Contains(help, name) {
			t.Errorf("--help: exit status %d, does it tell of %s? %v", status, name, strings.Contains(help, name))
		}
	}
	if status, _, stderr := runWrong(t, "--no-such-flag"); status != 2 || !strings.Contains(stderr, "no-such-flag") {
		t.Errorf("an unknown flag: %d, %q", status, stderr)
	}
	var out, errs bytes.Buffer
	if status := KGS(t.Context(), "v-test", nil, &out, &errs); status != 2 || !strings.Contains(errs.String(), "REDIS_URL") {
		t.Errorf("kgs without Redis: %d, %q", status, errs.String())
	}
}

func TestSettingErrorNamesTheFlag(t *testing.T) {
	t.Parallel()
	err := error(&SettingError{Name: "CODE_LENGTH", Got: "2", Takes: "3 to 10"})
	var setting *SettingError
	if diff := cmp.Diff(`CODE_LENGTH (--code-length): got "2", takes 3 to 10`, err.Error()); diff != "" || !errors.As(err, &setting) {
		t.Error(diff)
	}
}
