package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"keypool/internal/quota"
	"keypool/kgs/codespace"
)

// commandLine is the command line of a program with the settings of a server.
type commandLine struct {
	Server      `embed:""`
	Version     kong.VersionFlag
	ServeLinks  struct{} `cmd:"" name:"serve" default:"1" help:"Serve."`
	Healthcheck struct{} `cmd:"" help:"Check."`
}

func testRules() Rules {
	return Rules{
		KeySources: []KeySource{
			{"redis-pool", NeedsRedis}, {"memory-pool", ""}, {"ledger", ""}, {"postgres-pool", NeedsPostgres},
			{"redis-incr", NeedsRedis}, {"ticket", ""}, {"hash", ""}, {"kgs", NeedsKGS},
		},
		Origin: func(text string) (string, bool) {
			bad := strings.HasSuffix(text, "://") || strings.Contains(text, "..") || strings.HasSuffix(text, ":99999")
			return strings.Replace(text, "bücher", "xn--bcher-kva", 1), !bad
		},
		Host: func(text string) bool { return !strings.ContainsAny(text, ":/ ") },
		URL: func(text string) (string, bool) {
			return strings.Replace(text, "bücher", "xn--bcher-kva", 1), strings.HasPrefix(text, "https://") && !strings.Contains(text, "@")
		},
	}
}

// read parses the settings of a server. It also returns everything that the parser printed.
func read(args ...string) (s Server, printed string, err error) {
	var f commandLine
	var out bytes.Buffer
	p := Program{
		Name: "shortener", Description: "A test.", Version: "shortener v1 (commit abc)", KeySources: testRules().KeySources,
		Examples: []Example{{Command: "shortener --listen-addr=:80", Comment: "the default port of HTTP"}},
		Out:      &out, Errors: &out,
	}
	command, err := p.Parse(&f, args)
	if err == nil && command != "" {
		err = f.Complete(testRules())
	}
	return f.Server, out.String(), err
}

// wantRefused fails the test unless err is one line that names the setting and contains takes.
func wantRefused(t *testing.T, err error, name, takes string) {
	t.Helper()
	var refused *Error
	if !errors.As(err, &refused) || refused.Name != name || !strings.Contains(err.Error(), takes) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v; want one line that names %s and contains %q", err, name, takes)
	}
}

func TestInvalidSettingValuesAreRefused(t *testing.T) {
	tests := []struct {
		name, value string
		takes       string // a part of the text about valid values
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
		{"TRUSTED_PROXIES", "::ffff:10.0.0.0/104", "an IPv4 network is not written as"},
		{"TRUSTED_PROXIES", ",", `got "", takes CIDRs`},
		{"TRUSTED_PROXIES", "10.0.0.0/8,", `got "", takes CIDRs`},
		{"TRUSTED_PROXIES", " ", `got "", takes CIDRs`},
		{"ADMIN_HOSTS", "http://server1", `got "http://server1", takes host names`},
		{"ADMIN_HOSTS", "server1,server2:8081", "without scheme, port or path"},
		{"UI", "on", "off, token or header"},
		{"UI", "header", "TRUSTED_PROXIES"},
		{"UI_USER_HEADER", "Remote User", "such as Remote-User"},
		{"UI_USER_HEADER", "", "such as Remote-User"},
		{"UI_USER_HEADER", "x-forwarded-for", "without another meaning"},
		{"UI_USER_HEADER", "Host", "without another meaning"},
		{"UI_USER_HEADER", "Cookie", "without another meaning"},
		{"OWN_HOSTS", "go.example,www.go.example:80", "without scheme, port or path"},
		{"OWN_HOSTS", "https://go.example", `got "https://go.example", takes host names`},
		{"OWN_HOSTS", "go.example www.go.example", "separated by commas"},
		{"REPORT_URL", "example.com/report", "http://host[:port]/... or https://"},
		{"REPORT_URL", "mailto:", `got "mailto:", takes`},
		{"REPORT_URL", "mailto:nobody", "or mailto:user@host"},
		{"REPORT_URL", "mailto:Abuse <abuse@go.example>", "or mailto:user@host"},
		{"REPORT_URL", "mailto:abuse@go.example?subject=a&BODY=b", "without a body"},
		{"REPORT_URL", "javascript:alert(1)", "http://host"},
		{"HOME_URL", "/about", "http://host"},
		{"HOME_URL", "mailto:abuse@go.example", "https://host[:port]/..., without"},
		{"HOME_URL", "https://user:password@go.example/", `got "https://go.example/..."`},
		{"NOT_FOUND_URL", "ftp://go.example/", "http://host"},
		{"DATABASE_URL", "mysql://host/db", "sqlite:PATH or postgres://"},
		{"DATABASE_URL", "sqlite:", "sqlite:PATH"},
		{"DATABASE_URL", "sqlite::memory:", "would lose every link"},
		{"DATABASE_URL", "sqlite://x.db", "without a host and without parameters"},
		{"DATABASE_URL", "sqlite:x.db?mode=ro", "without a host and without parameters"},
		{"DATABASE_URL", "postgres://user:secret@host/db?sslmode=disable&pool_max_conns=abc", "an invalid value of the parameter pool_max_conns"},
		{"DATABASE_URL", "postgres://host:port/db", "postgres://user:password@host"},
		{"DATABASE_URL", "postgres://a,b/db?connect_timeout=6", "connect_timeout of at most 5 for several hosts"},
		{"REDIS_URL", "http://host", "redis://"},
		{"REDIS_URL", "redis://host?tls_ca=/etc/ca.pem", "tls_ca, tls_cert and tls_key need rediss"},
		{"REDIS_URL", "rediss://a:secret@host?tls_ca=/no/such/file", `got "tls_ca=/no/such/file", takes a PEM file`},
		{"KEY_SOURCE", "magic", "redis-pool, memory-pool, ledger, "},
		{"KEY_SOURCE", "redis-pool", "REDIS_URL"},
		{"KEY_SOURCE", "redis-incr", "REDIS_URL"},
		{"KEY_SOURCE", "postgres-pool", "a PostgreSQL DATABASE_URL"},
		{"KEY_SOURCE", "kgs", "KGS_URL"},
		{"KGS_URL", "http://a:token@localhost:99999", "http://client:token@host[:port]"},
		{"KGS_URL", "http://a:token@localhost/?retries=3", "http://client:token@host[:port]"},
		{"TICKET_DATABASE_URLS", "postgres://a:b@c/d", "two databases"},
		{"TICKET_DATABASE_URLS", "postgres://a:b@c/d,postgres://a:b@c/e,postgres://a:b@c/f", "two databases"},
		{"DATABASE_READ_URLS", "sqlite:replica.db", "replicas of DATABASE_URL"},
		{"DATABASE_READ_URLS", "postgres://a:secret@c/d, mysql://e/f", `got "mysql://e/..."`},
		{"DATABASE_READ_URLS", "postgres://a:secret@c/d,postgres://a:secret@e/f", "no value while DATABASE_URL is an SQLite database"},
		{"DATABASE_READ_URLS", "postgres://a:secret@c,d/links", "each with one host"},
		{"DATABASE_READ_URLS", "postgres://a:secret@/links?host=c,d", "each with one host"},
		{"DATABASE_READ_MAX_LAG", "100ms", "from 500ms to 1m"},
		{"KGS_SECRET", "abcd", "16 or 32 bytes as hex"},
		{"KGS_SECRET", strings.Repeat("g", 32), "16 or 32 bytes as hex"},
		{"KGS_PERMUTE", "yes", "true or false"},
		{"KGS_WORKER", "0", "true or false"},
		{"CODE_LENGTH", "2", "from 3 to 10"},
		{"CODE_LENGTH", "six", "from 3 to 10"},
		{"KGS_POOL_CAPACITY", "-1", "whole number"},
		{"KGS_POOL_SHARDS", "0", "from 1 to 64"},
		{"KGS_POOL_SHARDS", "65", "from 1 to 64"},
		{"KGS_PREFIX", "", "1 to 64 letters"},
		{"KGS_PREFIX", "key{pool}", "letters, digits"},
		{"KGS_RESTART_BELOW", "101%", "percentage"},
		{"KGS_RESTART_BELOW", "NaN%", "percentage"},
		{"KGS_RESTART_BELOW", "95%", "at most 90%"},
		{"KGS_WORKER", "false", "memory-pool"},
		{"KGS_PAGE_BELOW", "2000000", "capacity of 1000000"},
		{"KGS_PAGE_BELOW", "30%", "not above KGS_RESTART_BELOW"},
		{"KGS_BATCH_MIN", "0", "whole number"},
		{"KGS_BATCH_MAX", "50", "not below KGS_BATCH_MIN"},
		{"FALLBACK", "hope", "random, ledger or none"},
		{"ANONYMOUS", "no", "true or false"},
		{"ANONYMOUS_RATE", "10", "N/s"},
		{"ANONYMOUS_RATE", "0/s", "from 1 to 1000000"},
		{"ANONYMOUS_MAX_AGE", "30d", "720h"},
		{"ANONYMOUS_MAX_AGE", "0s", "from 1s to 876000h"},
		{"ANONYMOUS_MAX_AGE", "876001h", "from 1s to 876000h"},
		{"MISS_RATE", "0", "from 1 to 1000000"},
		{"MISS_BURST", "many", "from 1 to 1000000"},
		{"VISITS", "on", "off, total or detail"},
		{"VISITS_FLUSH", "1", "100ms to 1m"},
		{"VISITS_FLUSH", "99ms", "100ms to 1m"},
		{"VISITS_FLUSH", "61s", "100ms to 1m"},
		{"VISITS_KEEP", "400", "400d"},
		{"VISITS_KEEP", "0d", "from 1h to 36500d"},
		{"VISITS_KEEP", "36501d", "from 1h to 36500d"},
		{"VISITS_KEEP", "1e3d", "400d"},
		{"COUNTRY_HEADER", "CF IPCountry", "CF-IPCountry"},
		{"COUNTRY_HEADER", "X-Land:", "CF-IPCountry"},
		{"REDIRECT_MAX_AGE", "-1", "from 0 to 31536000"},
		{"REDIRECT_MAX_AGE", "90s", "from 0 to 31536000"},
		{"ALERT_WEBHOOK_URL", "hooks.example/abc", "https://host"},
		{"ALERT_WEBHOOK_URL", "ftp://hooks.example/abc", "https://host"},
		{"ALERT_WEBHOOK_URL", "https:///abc", "https://host"},
		{"MIGRATE", "maybe", "true or false"},
		{"LOG_LEVEL", "loud", "debug, info, warn or error"},
		{"LOG_FORMAT", "xml", "text or json"},
	}
	for _, tt := range tests {
		t.Run(tt.name+"="+tt.value, func(t *testing.T) {
			t.Setenv(tt.name, tt.value)
			_, printed, err := read()
			wantRefused(t, err, tt.name, tt.takes)
			if printed != "" {
				t.Errorf("printed %q", printed)
			}
			flag := "--" + strings.ReplaceAll(strings.ToLower(tt.name), "_", "-")
			t.Setenv(tt.name, "")
			_, _, byFlag := read(flag + "=" + tt.value)
			if byFlag == nil || byFlag.Error() != err.Error() {
				t.Errorf("error of the flag: %v; error of the variable: %v; want equal errors", byFlag, err)
			}
		})
	}
}

func TestSettingErrorsContainNoSecret(t *testing.T) {
	const secret = "4711" // also valid as a port
	for _, flag := range []string{
		"--database-url=postgres://user:" + secret + "@host:badport/db",
		"--database-url=postgres://user@host/db?password=" + secret + "&sslmode=never",
		"--database-url=mysql://user:" + secret + "@host/db",
		"--database-url=%%" + secret,
		"--database-url=postgres://user:begins@" + secret + "@host/db",
		"--database-url=postgres://user:12/" + secret + "@host/db",
		"--database-read-urls=postgres://user:begins@" + secret + "@host/db",
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
		_, printed, err := read(flag)
		var refused *Error
		if !errors.As(err, &refused) || strings.Contains(printed+err.Error(), secret) {
			t.Errorf("%s: error %v, printed %q", flag, err, printed)
		}
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		t.Run(flag, func(t *testing.T) {
			t.Setenv(strings.ToUpper(strings.ReplaceAll(name, "-", "_")), value)
			if _, _, fromEnv := read(); fromEnv == nil || fromEnv.Error() != err.Error() {
				t.Errorf("from the environment: %v, want %v", fromEnv, err)
			}
		})
	}
}

func TestUnsetSettingsHaveDefaults(t *testing.T) {
	t.Parallel()
	s, _, err := read("--kgs-page-below=1000", "--base-url=https://bücher.example/", "--trusted-proxies=10.1.2.3/8, ::1/128")
	if err != nil {
		t.Fatal(err)
	}
	if restart, page := s.RestartBelow.Keys(s.PoolCapacity), s.PageBelow.Keys(s.PoolCapacity); restart != 200_000 || page != 1000 {
		t.Errorf("restart below %d, page below %d keys", restart, page)
	}
	if s.KeySource != "memory-pool" || s.BaseURL != "https://xn--bcher-kva.example" || s.Fallback != "random" {
		t.Errorf("key source %s, base URL %s, fallback %s", s.KeySource, s.BaseURL, s.Fallback)
	}
	if got := s.TrustedProxies; len(got) != 2 || got[0].String() != "10.0.0.0/8" {
		t.Errorf("trusted proxies %v", got)
	}
	if s.Tickets != (DatabasePair{s.Database, s.Database}) || s.MachineID.ID() != -1 || !s.Worker.On || !s.Migrate.On || s.Secret != nil {
		t.Errorf("tickets %v, machine id %d, worker %v, migrate %v, secret %v", s.Tickets, s.MachineID.ID(), s.Worker, s.Migrate, s.Secret)
	}
	if !s.Anonymous.On || s.AnonymousRate.Limit() != nil || s.AnonymousMaxAge != 0 || s.MissRate != 50 || s.MissBurst != 200 {
		t.Errorf("anonymous %v, rate %v, max age %v, misses %d and %d", s.Anonymous, s.AnonymousRate, s.AnonymousMaxAge, s.MissRate, s.MissBurst)
	}
	if s, _, err = read("--redis-url=redis://localhost"); err != nil || s.KeySource != "redis-pool" {
		t.Errorf("with REDIS_URL the key source is %q, error %v; want redis-pool", s.KeySource, err)
	}
}

func TestPercentageOfPoolIsRoundedToNearestNumberOfKeys(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"29%": 29, "57%": 57, "0.4%": 0, "0.6%": 1, "100%": 100} {
		var level Level
		if err := level.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := level.Keys(100); got != want {
			t.Errorf("%s of 100 keys are %d keys, want %d", text, got, want)
		}
	}
}

func TestFlagOverridesEnvironmentWhichOverridesDefault(t *testing.T) {
	t.Setenv("CODE_LENGTH", "7")
	t.Setenv("MACHINE_ID", "0")
	t.Setenv("BASE_URL", "")
	s, _, err := read()
	if err != nil || s.CodeLength != 7 || s.MachineID.ID() != 0 || s.BaseURL != "" {
		t.Errorf("code length %d, machine id %d, base URL %q, error %v", s.CodeLength, s.MachineID.ID(), s.BaseURL, err)
	}
	t.Setenv("CODE_LENGTH", "seven")
	if s, _, err = read("--code-length=8"); err != nil || s.CodeLength != 8 {
		t.Errorf("code length %d, error %v; want the value of the flag and not of the invalid variable", s.CodeLength, err)
	}
	t.Setenv("CODE_LENGTH", "")
	_, _, err = read()
	wantRefused(t, err, "CODE_LENGTH", "whole number")
}

func TestLimitSettingsAreParsed(t *testing.T) {
	t.Parallel()
	s, _, err := read("--anonymous=false", "--anonymous-rate=5/s", "--anonymous-max-age=36h30m", "--miss-rate=1", "--miss-burst=2")
	if err != nil {
		t.Fatal(err)
	}
	if limit := s.AnonymousRate.Limit(); s.Anonymous.On || limit == nil || *limit != 5 || s.AnonymousMaxAge != Age(36*time.Hour+30*time.Minute) ||
		s.MissRate != 1 || s.MissBurst != 2 {
		t.Errorf("anonymous %v, rate %v, max age %v, misses %d and %d", s.Anonymous, s.AnonymousRate, s.AnonymousMaxAge, s.MissRate, s.MissBurst)
	}
	if s, _, err = read("--anonymous-rate=off"); err != nil || s.AnonymousRate.Limit() == nil || *s.AnonymousRate.Limit() != quota.Off {
		t.Errorf("off is read as %v, error %v", s.AnonymousRate, err)
	}
}

func TestHostAndPageSettingsAreParsed(t *testing.T) {
	t.Parallel()
	s, _, err := read("--own-hosts= go.example, bücher.example,,192.0.2.1 ", "--home-url=https://bücher.example/a",
		"--not-found-url=https://go.example/404?a=b#c", "--report-url=mailto:abuse@go.example,two@go.example?subject=A%20link", "--block-hosts-file=/etc/hosts.block")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(OwnHosts{"go.example", "bücher.example", "192.0.2.1"}, s.OwnHosts); diff != "" {
		t.Error(diff)
	}
	if s.HomeURL != "https://xn--bcher-kva.example/a" || s.NotFoundURL != "https://go.example/404?a=b#c" ||
		s.ReportURL != "mailto:abuse@go.example,two@go.example?subject=A%20link" || s.BlockHosts != "/etc/hosts.block" {
		t.Errorf("home %q, not found %q, report %q, block list %q", s.HomeURL, s.NotFoundURL, s.ReportURL, s.BlockHosts)
	}
	if s, _, err = read("--report-url=https://go.example/report"); err != nil || s.ReportURL != "https://go.example/report" {
		t.Errorf("report %q, error %v", s.ReportURL, err)
	}
}

func TestHelpListsSettingsByGroup(t *testing.T) {
	t.Setenv("CODE_LENGTH", "two") // not read for --help
	t.Setenv("VERSION", "ignored") // the flag --version has no environment variable
	_, help, err := read("--help")
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, want := range []string{
		"Usage: shortener", "Examples:", "shortener --listen-addr=:80", "Listeners:", "--listen-addr=\":8080\"", "$LISTEN_ADDR",
		"Destinations and pages:", "$BLOCK_HOSTS_FILE", "Database:", "Keys:", "redis-pool, memory-pool,", "Pool and dead man's switch:",
		"--kgs-pool-capacity=1000000", "Fallback:", "Clients and limits:", "$ANONYMOUS_RATE", "Operation and logs:", "$ALERT_WEBHOOK_URL",
		"Commands:", "serve", "healthcheck",
	} {
		next := strings.Index(help[at:], want)
		if next < 0 {
			t.Fatalf("--help does not contain %q after the previous text:\n%s", want, help)
		}
		at += next
	}
	for line := range strings.Lines(help) {
		if len(line) > helpWidth+1 && !strings.Contains(line, "=") {
			t.Errorf("a line of --help has %d columns: %s", len(line), line)
		}
	}
}

func TestVersionFlagPrintsVersion(t *testing.T) {
	t.Parallel()
	if _, printed, err := read("--version"); err != nil || printed != "shortener v1 (commit abc)\n" {
		t.Errorf("--version printed %q, error %v", printed, err)
	}
}

func TestUnknownFlagIsRefused(t *testing.T) {
	t.Parallel()
	_, _, err := read("--no-such-flag")
	if err == nil || !strings.Contains(err.Error(), "no-such-flag") || !strings.Contains(err.Error(), "shortener --help") {
		t.Errorf("error %v; want an error that names the flag and --help", err)
	}
}

func TestSettingErrorNamesVariableAndFlag(t *testing.T) {
	t.Parallel()
	err := error(&Error{Name: "CODE_LENGTH", Got: "2", Takes: "3 to 10"})
	if diff := cmp.Diff(`CODE_LENGTH (--code-length): got "2", takes 3 to 10`, err.Error()); diff != "" {
		t.Error(diff)
	}
}

// The tags of CODE_LENGTH repeat the bounds of package codespace.
func TestCodeLengthBoundsMatchCodespace(t *testing.T) {
	t.Parallel()
	for length, ok := range map[int]bool{codespace.MinLength - 1: false, codespace.MinLength: true, codespace.MaxLength: true, codespace.MaxLength + 1: false} {
		if _, _, err := read(fmt.Sprintf("--code-length=%d", length)); (err == nil) != ok {
			t.Errorf("code length %d: error %v", length, err)
		}
	}
}

func TestBadKeyServiceSettingsAreRefused(t *testing.T) {
	t.Parallel()
	const secret = "hunter2hunter2hunter2"
	for _, tt := range []struct{ flag, name, takes string }{
		{"--kgs-tokens=", "REDIS_URL", "KGS_TOKENS"},
		{"--kgs-tokens=" + secret, "KGS_TOKENS", "client=token"},
		{"--kgs-tokens=a=" + secret + ",a=" + secret, "KGS_TOKENS", "all different"},
		{"--kgs-tokens=a=hunter2", "KGS_TOKENS", "16 to 512"},
		{"--kgs-listen-addr=8082", "KGS_LISTEN_ADDR", "[host]:port"},
		{"--kgs-client-rate=0", "KGS_CLIENT_RATE", "whole number"},
	} {
		var f struct {
			KGS `embed:""`
		}
		var out bytes.Buffer
		_, err := Program{Name: "kgs", Out: &out, Errors: &out}.Parse(&f, []string{tt.flag})
		if err == nil {
			err = f.Complete()
		}
		wantRefused(t, err, tt.name, tt.takes)
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v contains the secret", tt.flag, err)
		}
	}
}
