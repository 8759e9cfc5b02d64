package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/cmd/internal/config"
)

// Without Citus, the command exits with one line that names Citus, and creates no
// tables.
func TestMigrateWithShardsRequiresCitus(t *testing.T) {
	onDatabases(t, func(t *testing.T, url string) {
		status, out := command(t, url, "migrate", "--shards=4")
		if status == 0 || !strings.Contains(strings.ToLower(out), "citus") || strings.Count(out, "\n") != 1 {
			t.Errorf("migrate --shards=4: exit status %d, %q", status, out)
		}
		if status, _ := command(t, url, "audit"); status == 0 {
			t.Error("the database has tables")
		}
	})
	if status, out := command(t, sqliteURL(t), "migrate", "--shards=4"); status != 2 || !strings.Contains(out, "DATABASE_URL") {
		t.Errorf("migrate --shards=4 with SQLite: exit status %d, %q, want 2 and DATABASE_URL", status, out)
	}
	for _, shards := range []string{"", "0", "-1", "x", "64001"} {
		if status, out := command(t, sqliteURL(t), "migrate", "--shards="+shards); status != 2 || !strings.Contains(out, "--shards") {
			t.Errorf("migrate --shards=%s: exit status %d, %q", shards, status, out)
		}
	}
}

// postgres returns the settings that a DATABASE_URL describes.
func postgres(t *testing.T, url string) *pgxpool.Config {
	t.Helper()
	var d config.Database
	if err := d.UnmarshalText([]byte(url)); err != nil {
		t.Fatal(err)
	}
	return d.Postgres
}

// attempts describes the attempts of pgx to connect: the host and the port, and for TLS the server name and whether the
// certificate is verified.
func attempts(cfg *pgxpool.Config) (list []string) {
	conn := cfg.ConnConfig
	all := append([]*pgconn.FallbackConfig{{Host: conn.Host, Port: conn.Port, TLSConfig: conn.TLSConfig}}, conn.Fallbacks...)
	for _, a := range all {
		s := fmt.Sprintf("%s:%d", a.Host, a.Port)
		if a.TLSConfig != nil {
			s += fmt.Sprintf(" TLS %q verify=%t", a.TLSConfig.ServerName, !a.TLSConfig.InsecureSkipVerify)
		}
		list = append(list, s)
	}
	return list
}

func TestConnectionsToNodesUseSSLModeOfDatabaseURL(t *testing.T) {
	t.Parallel()
	const plain, encrypted, verified = "node:6000", `node:6000 TLS "node" verify=false`, `node:6000 TLS "node" verify=true`
	for _, tt := range []struct {
		url  string
		want []string
	}{
		{"postgres://user@coordinator/links?sslmode=disable", []string{plain}},
		{"postgres://user@coordinator/links?sslmode=allow", []string{plain, encrypted}},
		{"postgres://user@coordinator/links?sslmode=prefer", []string{encrypted, plain}},
		{"postgres://user@coordinator/links", []string{encrypted, plain}},
		{"postgres://user@coordinator/links?sslmode=require", []string{encrypted}},
		{"postgres://user@coordinator/links?sslmode=verify-full", []string{verified}},
		{"postgres://user@192.0.2.1/links?sslmode=verify-full", []string{verified}},
		{"postgres://user@coordinator/links?sslmode=require&sslsni=0", []string{`node:6000 TLS "" verify=false`}},
		{"postgres://user@coordinator,standby/links", []string{encrypted, plain}},
		{"postgres://user@coordinator:5432,coordinator:5433/links?sslmode=verify-full", []string{verified}},
		{"postgres://user@coordinator,standby/links?sslmode=disable", []string{plain}},
	} {
		database := postgres(t, tt.url)
		before := attempts(database)
		if got := attempts(nodeConfig(database, "node", 6000)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: the server tries %q, want %q", tt.url, got, tt.want)
		}
		if after := attempts(database); !slices.Equal(after, before) {
			t.Errorf("%s: the settings of the coordinator are now %q, want %q", tt.url, after, before)
		}
	}
}

func TestServerRefusesUnixSocketForCitus(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{
		"postgres://user@/links?host=/run/postgresql&sslmode=require":    true,
		"postgres://user@/links?host=/run/postgresql,coordinator":        true,
		"postgres://user@coordinator/links":                              false,
		"postgres://user@[2001:db8::1]/links":                            false,
		"postgres://user@/links?host=coordinator,/run/postgresql&port=1": false,
	} {
		if err := checkHost(postgres(t, url)); errors.As(err, new(*config.Error)) != want {
			t.Errorf("%s: error %v, want an error of the setting: %t", url, err, want)
		}
	}
}
