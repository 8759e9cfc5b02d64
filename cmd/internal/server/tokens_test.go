package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"keypool/internal/testenv"
	"keypool/internal/testenv/logbuffer"
	"keypool/shortener/token"
	"keypool/web/admin"
)

// onDatabases runs test with the URL of an empty database of each engine.
func onDatabases(t *testing.T, test func(t *testing.T, url string)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); test(t, sqliteURL(t)) })
	t.Run("postgres", func(t *testing.T) { t.Parallel(); test(t, testenv.PostgresURL(t)) })
}

// runToken runs one of the commands `shortener token ...`, which must succeed. It returns the standard output.
func runToken(t *testing.T, url string, args ...string) string {
	t.Helper()
	status, stdout, stderr := runShortener(t, append([]string{"--database-url=" + url, "token"}, args...)...)
	if status != 0 || stderr != "" {
		t.Fatalf("token %s: exit status %d, %s", args, status, stderr)
	}
	return stdout
}

func createdToken(t *testing.T, url string, args ...string) (bearer, secret string) {
	t.Helper()
	out := runToken(t, url, append([]string{"create"}, args...)...)
	match := regexp.MustCompile(`^kp_\d{8}_([A-Z2-7]{26,})\n$`).FindStringSubmatch(out)
	if match == nil {
		t.Fatalf("token create prints %q, want only the token", out)
	}
	return strings.TrimSuffix(out, "\n"), match[1]
}

// create creates a link with a token and returns the answer.
func (r *running) create(bearer string) answer {
	r.t.Helper()
	return r.doAs(bearer, http.MethodPost, "http://"+r.Addr().String()+"/shorten", "url=https://go.dev/")
}

// Processes other than the servers create and revoke the tokens. A new token is valid at once. When the command
// `token revoke` ends, no server accepts the token.
func TestServersApplyTokenCreationAndRevocation(t *testing.T) {
	onDatabases(t, func(t *testing.T, url string) {
		var log logbuffer.Buffer
		servers := []*running{
			startLogging(t, settings(t, url, "", "--anonymous=false", "--log-level=debug"), &log),
			startLogging(t, settings(t, url, "", "--anonymous=false", "--log-level=debug"), &log),
		}
		bearer, secret := createdToken(t, url, "--name=ci", "--scope=create")
		for _, r := range servers {
			if a := r.create(bearer); a.status != http.StatusCreated || a.header.Get("RateLimit-Policy") != `"token";q=1000;w=10` {
				t.Errorf("a creation with a new token: %+v, want status 201 and the quota of the token", a)
			}
			if a := r.create(""); a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("a creation without a token: %+v, want status 401", a)
			}
		}
		began := time.Now()
		if out := runToken(t, url, "revoke", "1"); out != "revoked 00000001\n" {
			t.Errorf("token revoke prints %q", out)
		}
		if took := time.Since(began); took < time.Second {
			t.Errorf("token revoke ended after %v, before every server refuses the token", took)
		}
		for _, r := range servers {
			a, late := r.create(bearer), false
			for deadline := time.Now().Add(patience); a.status == http.StatusCreated && time.Now().Before(deadline); a = r.create(bearer) {
				late = true
			}
			if late { // a server that reads the tokens late reports this
				r.awaitLog(&log, "recurring task failed", "read the tokens")
			}
			if a.status != http.StatusUnauthorized || strings.Contains(a.body, secret) {
				t.Errorf("a creation with a revoked token: %+v, want status 401", a)
			}
			r.stop()
		}
		if text := log.String() + runToken(t, url, "list") + runToken(t, url, "list", "--json"); strings.Contains(text, secret) {
			t.Error("a log or a list contains the secret")
		}
	})
}

func TestTokenListShowsAllTokens(t *testing.T) {
	onDatabases(t, func(t *testing.T, url string) {
		if status, out := command(t, url, "migrate"); status != 0 {
			t.Fatalf("migrate: %s", out)
		}
		if out := runToken(t, url, "list", "--json"); out != "[]\n" {
			t.Errorf("the list without tokens is %q", out)
		}
		createdToken(t, url, "--name=ci pipeline", "--scope=read,create", "--rate=5/s", "--expires=720h")
		createdToken(t, url, "--name=ops", "--scope=admin", "--rate=off")
		runToken(t, url, "revoke", "00000002")
		var listed []map[string]any
		if err := json.Unmarshal([]byte(runToken(t, url, "list", "--json")), &listed); err != nil {
			t.Fatal(err)
		}
		if len(listed) != 2 {
			t.Fatalf("token list prints %v, want 2 tokens", listed)
		}
		age := func(member string, token map[string]any) time.Duration {
			at, err := time.Parse(time.RFC3339, fmt.Sprint(token[member]))
			if err != nil {
				t.Errorf("%s: %v", member, err)
			}
			return time.Since(at)
		}
		if got := age("expires_at", listed[0]) + 720*time.Hour - age("created_at", listed[0]); got.Abs() > time.Millisecond {
			t.Errorf("the token expires %v from 720h after its creation", got)
		}
		if got := age("revoked_at", listed[1]); got < time.Second || got > time.Minute {
			t.Errorf("the token was revoked %v ago", got)
		}
		for i, want := range []string{
			`"created_at expires_at id=00000001 name=ci pipeline rate=5/s scopes=[create read]"`,
			`"created_at id=00000002 name=ops rate=off revoked_at scopes=[admin]"`,
		} {
			if got := fmt.Sprintf("%q", members(listed[i])); got != want {
				t.Errorf("token %d is %s, want %s", i+1, got, want)
			}
		}
		table := runToken(t, url, "list")
		if lines := strings.Split(table, "\n"); len(lines) != 4 || !strings.HasPrefix(lines[0], "ID        NAME") || !strings.HasPrefix(lines[2], "00000002  ops") {
			t.Errorf("the table is\n%s", table)
		}
	})
}

// members returns the names of the members in order, with the values that are not times.
func members(token map[string]any) string {
	var words []string
	for _, name := range []string{"created_at", "expires_at", "id", "last_used_at", "name", "rate", "revoked_at", "scopes"} {
		value, ok := token[name]
		switch {
		case !ok:
		case strings.HasSuffix(name, "_at"):
			words = append(words, name)
		default:
			words = append(words, fmt.Sprintf("%s=%v", name, value))
		}
	}
	return strings.Join(words, " ")
}

func TestTokenCommandsRefuseBadInput(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	if status, out := command(t, url, "migrate"); status != 0 {
		t.Fatalf("migrate: %s", out)
	}
	createdToken(t, url, "--name=ci", "--scope=create")
	for _, tt := range []struct {
		args   []string
		status int
		words  string
	}{
		{[]string{"create", "--scope=create"}, 2, "--name"},
		{[]string{"create", "--name=x"}, 2, "--scope"},
		{[]string{"create", "--name=\xff", "--scope=create"}, 2, `got "\xff"`},
		{[]string{"create", "--name=", "--scope=create"}, 2, "1 to 64"},
		{[]string{"create", "--name=x", "--scope=write"}, 2, "create, read, edit and admin"},
		{[]string{"create", "--name=x", "--scope="}, 2, "create, read, edit and admin"},
		{[]string{"create", "--name=x", "--scope=create", "--rate=5"}, 2, `--rate: got "5", takes N/s`},
		{[]string{"create", "--name=x", "--scope=create", "--expires=tomorrow"}, 2, `--expires: got "tomorrow", takes a duration`},
		{[]string{"create", "--name=ci", "--scope=create"}, 1, "another token"},
		{[]string{"revoke", "ci"}, 2, "takes the id of a token"},
		{[]string{"revoke", "4711"}, 1, "no token has this id"},
		{[]string{"revoke"}, 2, "<id>"},
	} {
		status, stdout, stderr := runShortener(t, append([]string{"--database-url=" + url, "token"}, tt.args...)...)
		if status != tt.status || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tt.words) {
			t.Errorf("token %q: exit status %d, stdout %q, stderr %q; want %d and one line with %q", tt.args, status, stdout, stderr, tt.status, tt.words)
		}
	}
	missing := "sqlite:" + filepath.Join(t.TempDir(), "none.db")
	if status, out := command(t, missing, "token", "list"); status != 1 || !strings.Contains(out, "shortener migrate") {
		t.Errorf("token list without a database: exit status %d, %s", status, out)
	}
}

// In some query modes of pgx, PostgreSQL must infer the types of the parameters from the statement alone.
func TestTokenCommandsWorkInEachQueryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_describe", "describe_exec", "exec", "simple_protocol"} {
		url := testenv.PostgresURL(t) + "&default_query_exec_mode=" + mode
		if status, out := command(t, url, "migrate"); status != 0 {
			t.Fatalf("%s: migrate: %s", mode, out)
		}
		createdToken(t, url, "--name=ci", "--scope=create")
		runToken(t, url, "revoke", "1")
	}
}

// If the command `token revoke` is interrupted while it waits until every server refuses the token, the command fails. The
// token is revoked nevertheless.
func TestInterruptedTokenRevokeCommandExitsWithError(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	if status, out := command(t, url, "migrate"); status != 0 {
		t.Fatalf("migrate: %s", out)
	}
	createdToken(t, url, "--name=ci", "--scope=create")
	ctx, cancel := context.WithTimeout(t.Context(), token.Freshness/2)
	defer cancel()
	var out, errs bytes.Buffer
	if status := Run(ctx, []string{"--database-url=" + url, "token", "revoke", "1"}, &out, &errs); status != 1 || out.Len() != 0 {
		t.Errorf("an interrupted revocation: exit status %d, stdout %q, stderr %q; want 1 and no output", status, &out, &errs)
	}
}

// The limits and the numbers of refused requests are in /status and in the metrics.
func TestStatusAndMetricsShowRequestLimits(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	r := start(t, settings(t, url, "", "--anonymous-rate=1/s", "--anonymous-max-age=48h", "--miss-rate=7", "--miss-burst=8"))
	for r.create("").status == http.StatusCreated {
	}
	for r.do(http.MethodGet, "http://"+r.Addr().String()+"/none", "").status == http.StatusNotFound {
	}
	l := r.status().Limits
	if l == nil || !l.Anonymous || l.AnonymousRate != "1/s" || !l.LoopbackLimited || l.AnonymousMaxAge == nil || *l.AnonymousMaxAge != 48*3600 ||
		l.MissRate != 7 || l.MissBurst != 8 || l.Refused != (admin.Refused{Anonymous: 1, Miss: 1}) {
		t.Errorf("the limits in /status are %+v", l)
	}
	metrics := r.do(http.MethodGet, "http://"+r.AdminAddr().String()+"/metrics", "").body
	for _, line := range []string{
		`http_requests_limited_total{limit="anonymous"} 1`, `http_requests_limited_total{limit="token"} 0`, `http_requests_limited_total{limit="miss"} 1`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
	unlimited := start(t, settings(t, sqliteURL(t), "", "--anonymous-rate=off"))
	if l := unlimited.status().Limits; l == nil || l.AnonymousRate != "off" || l.LoopbackLimited {
		t.Errorf("the limits in /status with ANONYMOUS_RATE=off are %+v", l)
	}
	open := start(t, settings(t, sqliteURL(t), ""))
	if l := open.status().Limits; l == nil || !l.Anonymous || l.AnonymousRate != "10/s" || l.LoopbackLimited || l.AnonymousMaxAge != nil {
		t.Errorf("the default limits in /status are %+v", l)
	}
}

// The server logs when the tokens cannot be read, and keeps serving with the tokens that it read last.
func TestServerKeepsLastTokensWhileDatabaseIsDown(t *testing.T) {
	t.Parallel()
	var log logbuffer.Buffer
	server := testenv.StartPostgres(t)
	r := startLogging(t, settings(t, server.URL, "", "--key-source=random"), &log)
	bearer, _ := createdToken(t, server.URL, "--name=ci", "--scope=create")
	if a := r.create(bearer); a.status != http.StatusCreated {
		t.Fatalf("a creation before the outage: %+v, want status 201", a)
	}
	server.Stop()
	r.awaitLog(&log, "recurring task failed", "read the tokens")
	if age := r.tokensAge(); age <= token.Freshness {
		t.Errorf("the tokens are %v old, although the server reports an outage", age)
	}
	if a := r.once(bearer, http.MethodPost, r.URL()+"/shorten", "url=https://go.dev/"); a.status != http.StatusServiceUnavailable { // not 401
		t.Errorf("a creation during the outage: %+v, want status 503, because the token may be valid", a)
	}
	server.Restart()
	r.awaitLog(&log, "recurring task works again", "read the tokens")
}

// tokensAge returns the time since the server read the tokens, according to a metric.
func (r *running) tokensAge() time.Duration {
	r.t.Helper()
	metrics := r.do(http.MethodGet, "http://"+r.AdminAddr().String()+"/metrics", "").body
	match := regexp.MustCompile(`(?m)^shortener_tokens_read_timestamp_seconds (\S+)$`).FindStringSubmatch(metrics)
	if match == nil {
		r.t.Fatal("no metric has the time at which the tokens were read")
	}
	seconds, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return time.Since(time.UnixMilli(int64(1000 * seconds)))
}

// awaitLog waits for a log line that contains all words.
func (r *running) awaitLog(log *logbuffer.Buffer, words ...string) {
	r.t.Helper()
	r.await("the log line "+strings.Join(words, " "), func(admin.Status) bool {
		for line := range strings.Lines(log.String()) {
			found := true
			for _, word := range words {
				found = found && strings.Contains(line, word)
			}
			if found {
				return true
			}
		}
		return false
	})
}
