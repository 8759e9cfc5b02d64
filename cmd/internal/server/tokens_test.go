package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	return printedToken(t, runToken(t, url, append([]string{"create"}, args...)...))
}

// printedToken returns the token that a command has printed, and its secret.
func printedToken(t *testing.T, out string) (bearer, secret string) {
	t.Helper()
	match := regexp.MustCompile(`^kp_\d{8}_([A-Z2-7]{26,})\n$`).FindStringSubmatch(out)
	if match == nil {
		t.Fatalf("the command prints %q, want only the token", out)
	}
	return strings.TrimSuffix(out, "\n"), match[1]
}

// create creates a link with a token and returns the answer.
func (r *running) create(bearer string) answer {
	r.t.Helper()
	return r.doAs(bearer, http.MethodPost, "http://"+r.Addr().String()+"/shorten", "url=https://go.dev/")
}

// startTwo starts two servers that serve only clients with tokens.
func startTwo(t *testing.T, url string, log *logbuffer.Buffer) (servers []*running) {
	t.Helper()
	for range 2 {
		servers = append(servers, startLogging(t, settings(t, url, "", "--anonymous=false", "--log-level=debug"), log))
	}
	return servers
}

// The commands `token create` and `token revoke` run while two servers run. A new token is valid at once. When the command
// `token revoke` ends, no server accepts the token.
func TestServersApplyTokenCreationAndRevocation(t *testing.T) {
	onDatabases(t, func(t *testing.T, url string) {
		var log logbuffer.Buffer
		servers := startTwo(t, url, &log)
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
			r.wantRefused(bearer, &log)
			r.stop()
		}
		if text := log.String() + runToken(t, url, "list") + runToken(t, url, "list", "--json"); strings.Contains(text, secret) {
			t.Error("a log or a list contains the secret")
		}
	})
}

// wantRefused checks that the server refuses a token. A server that still accepts the token must report that it reads the
// tokens late.
func (r *running) wantRefused(bearer string, log *logbuffer.Buffer) {
	r.t.Helper()
	a, late := r.create(bearer), false
	for deadline := time.Now().Add(patience); a.status == http.StatusCreated && time.Now().Before(deadline); a = r.create(bearer) {
		late = true
	}
	if late {
		r.awaitLog(log, "recurring task failed", "read the tokens")
	}
	if secret := bearer[strings.LastIndex(bearer, "_")+1:]; a.status != http.StatusUnauthorized || strings.Contains(a.body, secret) {
		r.t.Errorf("a creation with a token that is not valid: %+v, want status 401", a)
	}
}

// output is an io.Writer that passes each line of a command to a function. A command prints a token with one call of Write.
type output func(line string) error

func (o output) Write(b []byte) (int, error) { return len(b), o(string(b)) }

// The new secret of a token is valid as soon as the command `token renew` prints the token. When the command ends, no server
// accepts the old secret. The token keeps its links.
func TestServersApplyTokenRenewal(t *testing.T) {
	onDatabases(t, func(t *testing.T, url string) {
		var log logbuffer.Buffer
		servers := startTwo(t, url, &log)
		former, formerSecret := createdToken(t, url, "--name=ci", "--scope=create,read")
		code := servers[0].created(servers[0].create(former))
		var bearer, secret string
		var printed time.Time
		out := output(func(line string) error {
			bearer, secret = printedToken(t, line)
			for _, r := range servers {
				if a := r.create(bearer); a.status != http.StatusCreated {
					t.Errorf("a creation with the new secret: %+v, want status 201", a)
				}
			}
			printed = time.Now()
			return nil
		})
		var errs bytes.Buffer
		if status := Run(t.Context(), []string{"--database-url=" + url, "token", "renew", "1"}, out, &errs); status != 0 || errs.Len() != 0 {
			t.Fatalf("token renew: exit status %d, %s", status, &errs)
		}
		if took := time.Since(printed); took < token.Freshness {
			t.Errorf("token renew ended %v after its output, before every server refuses the old secret", took)
		}
		for _, r := range servers {
			r.wantRefused(former, &log)
			if a := r.doAs(bearer, http.MethodGet, r.URL()+"/api/links", ""); !strings.Contains(a.body, `"`+code+`"`) {
				t.Errorf("the links of the renewed token: %+v, want %s among them", a, code)
			}
			r.stop()
		}
		text := log.String() + runToken(t, url, "list") + runToken(t, url, "list", "--json")
		if strings.Contains(text, secret) || strings.Contains(text, formerSecret) {
			t.Error("a log or a list contains a secret")
		}
	})
}

// A renewed token expires after the duration --expires, counted from the renewal. Without the flag, it never expires.
func TestTokenRenewSetsExpiry(t *testing.T) {
	onDatabases(t, func(t *testing.T, url string) {
		if status, out := command(t, url, "migrate"); status != 0 {
			t.Fatalf("migrate: %s", out)
		}
		createdToken(t, url, "--name=ci", "--scope=read", "--rate=5/s", "--expires=1h")
		listed := func() (all []struct {
			ExpiresAt time.Time `json:"expires_at"`
		}) {
			if err := json.Unmarshal([]byte(runToken(t, url, "list", "--json")), &all); err != nil {
				t.Fatal(err)
			}
			return all
		}
		began := time.Now()
		printedToken(t, runToken(t, url, "renew", "00000001", "--expires=720h"))
		expires := listed()[0].ExpiresAt.Add(-720 * time.Hour)
		if expires.Before(began.Truncate(time.Microsecond)) || expires.After(time.Now()) {
			t.Errorf("the token expires 720h after %v, and the renewal began at %v", expires, began)
		}
		printedToken(t, runToken(t, url, "renew", "1"))
		if all := listed(); len(all) != 1 || !all[0].ExpiresAt.IsZero() {
			t.Errorf("after a renewal without --expires, the tokens are %+v, want one that never expires", all)
		}
	})
}

// If the command `token renew` is interrupted while it waits until every server refuses the old secret, the command fails. The
// new token is not lost, because the command prints it before the wait.
func TestInterruptedTokenRenewCommandHasPrintedToken(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	if status, out := command(t, url, "migrate"); status != 0 {
		t.Fatalf("migrate: %s", out)
	}
	former, _ := createdToken(t, url, "--name=ci", "--scope=create")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var bearer string
	out := output(func(line string) error {
		bearer, _ = printedToken(t, line)
		cancel()
		return nil
	})
	var errs bytes.Buffer
	status := Run(ctx, []string{"--database-url=" + url, "token", "renew", "1"}, out, &errs)
	if status != 1 || bearer == "" || bearer == former || !strings.Contains(errs.String(), "the token 00000001 is renewed") {
		t.Errorf("an interrupted renewal: exit status %d, the token %q instead of %q, stderr %q; want 1 and a new token", status, bearer, former, &errs)
	}
}

// If the new token cannot be printed, the error says what to do.
func TestTokenRenewReportsThatTokenCannotBePrinted(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	if status, out := command(t, url, "migrate"); status != 0 {
		t.Fatalf("migrate: %s", out)
	}
	createdToken(t, url, "--name=ci", "--scope=create")
	full := output(func(string) error { return errors.New("the disk is full") })
	var errs bytes.Buffer
	status := Run(t.Context(), []string{"--database-url=" + url, "token", "renew", "1"}, full, &errs)
	if status != 1 || !strings.Contains(errs.String(), "renew it again: the disk is full") {
		t.Errorf("a renewal without output: exit status %d, stderr %q; want 1 and the advice to renew the token again", status, &errs)
	}
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
	createdToken(t, url, "--name=former", "--scope=create")
	runToken(t, url, "revoke", "2")
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
		{[]string{"renew", "ci"}, 2, "takes the id of a token"},
		{[]string{"renew", "4711"}, 1, "no token has this id"},
		{[]string{"renew", "2"}, 1, "the token is revoked, and a revocation is final"},
		{[]string{"renew", "1", "--expires=0"}, 2, `--expires: got "0", takes a duration`},
		{[]string{"renew"}, 2, "<id>"},
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
		printedToken(t, runToken(t, url, "renew", "1", "--expires=1h"))
		printedToken(t, runToken(t, url, "renew", "1"))
		runToken(t, url, "revoke", "1")
		if status, out := command(t, url, "token", "renew", "1"); status != 1 || !strings.Contains(out, "a revocation is final") {
			t.Errorf("%s: token renew of a revoked token: exit status %d, %s", mode, status, out)
		}
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
