package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"keypool/cmd/internal/app"
	"keypool/web/admin"
)

type runner func(ctx context.Context, args []string, stdout, stderr io.Writer) int

// runShortener runs the program shortener with these arguments, as a shell would.
func runShortener(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = Run(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

// runKGS runs the program kgs without the reflection service.
func runKGS(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return app.KGS(ctx, args, stdout, stderr, nil)
}

// runRefused runs a program with arguments that it must refuse. The context has already ended, so a
// program that accepts the arguments ends before it serves.
func runRefused(t *testing.T, run runner, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	status = run(ctx, args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestInvalidSettingsPrintOneLineAndExitWithStatus2(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		run         runner
		flag        string
		name, takes string
	}{
		{Run, "--base-url=https://", "BASE_URL", "http://host"},
		{Run, "--base-url=https://go..example", "BASE_URL", "http://host"},
		{Run, "--base-url=https://go.example:99999", "BASE_URL", "http://host"},
		{Run, "--own-hosts=go.example:80", "OWN_HOSTS", "without scheme, port or path"},
		{Run, "--own-hosts=go..example", "OWN_HOSTS", "without scheme, port or path"},
		{Run, "--home-url=/about", "HOME_URL", "https://host[:port]/..."},
		{Run, "--home-url=https://user:hunter2@go.example/", "HOME_URL", "without user information"},
		{Run, "--not-found-url=https://", "NOT_FOUND_URL", "https://host[:port]/..."},
		{Run, "--report-url=tel:112", "REPORT_URL", "mailto:user@host"},
		{Run, "--code-length=six", "CODE_LENGTH", "from 3 to 10"},
		{Run, "--key-source=magic", "KEY_SOURCE", "redis-pool, memory-pool, ledger, "},
		{Run, "--key-source=redis-incr", "KEY_SOURCE", "REDIS_URL"},
		{Run, "--key-source=postgres-pool", "KEY_SOURCE", "a PostgreSQL DATABASE_URL"},
		{Run, "--key-source=kgs", "KEY_SOURCE", "KGS_URL"},
		{Run, "--kgs-worker=false", "KGS_WORKER", "memory-pool"},
		{Run, "--database-url=mysql://user:hunter2@host/db", "DATABASE_URL", "sqlite:PATH or postgres://"},
		{Run, "--no-such-flag", "no-such-flag", "shortener --help"},
		{runKGS, "--kgs-tokens=", "REDIS_URL", "KGS_TOKENS"},
		{runKGS, "--kgs-tokens=a=hunter2", "KGS_TOKENS", "16 to 512"},
		{runKGS, "--kgs-client-rate=0", "KGS_CLIENT_RATE", "whole number"},
	} {
		status, stdout, stderr := runRefused(t, tt.run, tt.flag)
		if status != 2 || stdout != "" {
			t.Errorf("%s: exit status %d, stdout %q; want 2 and nothing", tt.flag, status, stdout)
		}
		if strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tt.name) || !strings.Contains(stderr, tt.takes) || strings.Contains(stderr, "hunter2") {
			t.Errorf("%s: stderr %q; want one line that names %s and contains %q, without the secret", tt.flag, stderr, tt.name, tt.takes)
		}
	}
}

func TestVersionAndHelpArePrinted(t *testing.T) {
	t.Parallel()
	if status, stdout, _ := runShortener(t, "--version"); status != 0 || stdout != "shortener unknown (commit unknown)\n" {
		t.Errorf("--version: exit status %d, stdout %q", status, stdout)
	}
	want := []string{"LISTEN_ADDR", "KGS_POOL_CAPACITY", "FALLBACK", "ALERT_WEBHOOK_URL", "migrate", "audit", "delete", "healthcheck"}
	for _, source := range app.KeySources() {
		want = append(want, source.Name)
	}
	status, help, _ := runShortener(t, "--help")
	for _, name := range want {
		if status != 0 || !strings.Contains(help, name) {
			t.Errorf("--help: exit status %d, output contains %s = %v", status, name, strings.Contains(help, name))
		}
	}
	var out, errs bytes.Buffer
	if status := runKGS(t.Context(), []string{"--help"}, &out, &errs); status != 0 || !strings.Contains(out.String(), "$KGS_TOKENS") {
		t.Errorf("kgs --help: exit status %d, stdout %q, stderr %q", status, out.String(), errs.String())
	}
}

func TestHealthcheckReportsReadiness(t *testing.T) {
	t.Parallel()
	r := start(t, settings(t, sqliteURL(t), ""))
	r.await("a full pool", fullWithBatch)
	addr := "--admin-addr=" + r.AdminAddr().String()
	if status, _, stderr := runShortener(t, addr, "healthcheck"); status != 0 {
		t.Errorf("healthcheck of a ready server: exit status %d, %s", status, stderr)
	}
	r.stop()
	if status, _, stderr := runShortener(t, addr, "healthcheck"); status != 1 || !strings.HasPrefix(stderr, "shortener: healthcheck: ") {
		t.Errorf("healthcheck of a stopped server: exit status %d, %q", status, stderr)
	}
}

func TestServerExitsWithStatus2IfPathIsNotADatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	content := strings.Repeat("not a database\n", 100)
	if err := os.WriteFile(text, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, text, os.DevNull} {
		for _, args := range [][]string{
			{"serve", "--listen-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"}, {"migrate"}, {"reindex"}, {"audit"}, {"delete", "abc"}, {"token", "list"},
			{"export", "--to=csv"},
		} {
			status, stdout, stderr := runShortener(t, append(args, "--database-url=sqlite:"+path)...)
			if status != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, path) {
				t.Errorf("%v of %s: exit status %d, stdout %q, stderr %q; want 2 and one line that names the path", args, path, status, stdout, stderr)
			}
		}
	}
	if left, err := os.ReadFile(text); err != nil || string(left) != content {
		t.Errorf("the file was changed to %q, error %v", left, err)
	}
}

// The log of a run begins with the version and the settings, and ends with the number of returned keys.
func TestLogDescribesStartAndStop(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := startLogging(t, settings(t, sqliteURL(t), ""), &log)
	r.shorten("https://go.dev/")
	r.stop()
	for _, line := range []string{
		`msg=serving url=.* version=unknown database=sqlite key_source=memory-pool pool_capacity_keys=\d+ anonymous=true anonymous_rate=10/s miss_rate=50`,
		`msg=stopping`, `msg=stopped keys_returned=[1-9]\d* after=`,
	} {
		if !regexp.MustCompile(line).MatchString(log.String()) {
			t.Errorf("no line %q in the log:\n%s", line, log.String())
		}
	}
}

// The keys that fill the pool and the first local batch are not used yet, so they do not affect a runway.
func TestIdleServerHasNoRunway(t *testing.T) {
	t.Parallel()
	r := start(t, settings(t, sqliteURL(t), "", "--kgs-batch-min=5"))
	idle := r.await("a full pool", fullWithBatch)
	for _, s := range []admin.Status{idle, r.await("a second look", func(s admin.Status) bool { return s.SpaceUsedRatio != nil })} {
		if s.RunwaySeconds != nil || s.SpaceRunwaySeconds != nil {
			t.Errorf("the runway of an idle server is %v and that of the space %v, want none", s.RunwaySeconds, s.SpaceRunwaySeconds)
		}
	}
	for range 11 { // more keys than r has in its two batches of five, so that one batch is settled
		r.shorten("https://go.dev/")
	}
	r.await("the runway of a busy server", func(s admin.Status) bool { return s.RunwaySeconds != nil && s.SpaceRunwaySeconds != nil })
}

// A batch that a server has just reserved is not used yet, so it does not affect the runway of the space. The first
// server watches the ledger while the second server reserves its first batches.
func TestSpaceRunwayOfIdleServersIsUnknown(t *testing.T) {
	t.Parallel()
	s := settings(t, sqliteURL(t), "", "--key-source=ledger", "--kgs-batch-min=5")
	r := start(t, s)
	reserved := *r.await("a look at the ledger", func(s admin.Status) bool { return s.SpaceUsedRatio != nil && *s.SpaceUsedRatio > 0 }).SpaceUsedRatio
	start(t, s)
	idle := r.await("the batches of another server", func(s admin.Status) bool { return s.SpaceUsedRatio != nil && *s.SpaceUsedRatio > reserved })
	if idle.SpaceRunwaySeconds != nil {
		t.Errorf("the runway of the space is %v s although no server has used a key, want none", *idle.SpaceRunwaySeconds)
	}
	for range 11 { // more keys than r has in its two batches of five, so that one batch is settled
		r.shorten("https://go.dev/")
	}
	r.await("the runway of the space with a busy server", func(s admin.Status) bool { return s.SpaceRunwaySeconds != nil })
}

// The folder of an SQLite database can become read-only while a server runs. The server can then write the database, but it
// can neither remove its lock file nor replace the witness. No link and no key is lost, so the stop must succeed. The test
// also runs as root, who may write to a read-only folder. Therefore it puts folders that are not empty in the place of the files.
func TestStopSucceedsIfFilesBesideSQLiteCannotBeChanged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := settings(t, sqliteURL(t), "")
	path := s.Database.SQLitePath
	r := startLogging(t, s, &log)
	r.await("a full pool", fullWithBatch)
	code := r.shorten("https://go.dev/")
	holder := onlyFile(t, path+".holder-*")
	if err := os.Remove(holder); err != nil {
		t.Fatal(err)
	}
	blocked := []string{holder, onlyFile(t, path+".witness-*") + ".new"}
	for _, folder := range blocked {
		if err := os.MkdirAll(filepath.Join(folder, "child"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; !regexp.MustCompile(`(?m)^kgs_witness_failures_total [1-9]`).MatchString(r.metrics()); i++ {
		if i == 1000 {
			t.Fatal("after 1000 creations, no failed write of the witness was counted")
		}
		r.shorten("https://go.dev/") // from time to time, the server takes a new batch
	}
	r.stop()
	for _, line := range []string{
		`level=WARN msg="recurring task failed" task="write the witness of the database" error=".*` + regexp.QuoteMeta(blocked[1]),
		`level=WARN msg="could not remove the lock file of this process; the next start removes it" error=".*` + regexp.QuoteMeta(holder),
		`msg=stopped keys_returned=[1-9]`,
	} {
		if !regexp.MustCompile(line).MatchString(log.String()) {
			t.Errorf("no line %q in the log:\n%s", line, log.String())
		}
	}

	for _, folder := range blocked {
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(holder, nil, 0o600); err != nil { // a stop in a read-only folder leaves this file
		t.Fatal(err)
	}
	next := start(t, s)
	next.wantStatus(code, 302, "https://go.dev/")
	if _, err := os.Stat(holder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock file of the stopped server after the next start: %v, want none", err)
	}
	next.stop()
	if status, output := command(t, "sqlite:"+path, "audit"); status != 0 {
		t.Errorf("audit: exit status %d, %s", status, output)
	}
}

// onlyFile returns the path of the only file that matches a pattern.
func onlyFile(t *testing.T, pattern string) string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) != 1 {
		t.Fatalf("the files %v match %s (error %v), want one", paths, pattern, err)
	}
	return paths[0]
}
