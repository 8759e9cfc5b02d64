package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"keypool/internal/testenv"
)

// Without Citus, the command exits with one line that names Citus, and makes no tables.
func TestDistributionNeedsCitus(t *testing.T) {
	onDatabases(t, func(t *testing.T, url string) {
		status, out := command(t, url, "migrate", "--shards=4")
		if status == 0 || !strings.Contains(out, "Citus") || strings.Count(out, "\n") != 1 {
			t.Errorf("migrate --shards=4: exit status %d, %q", status, out)
		}
		if status, _ := command(t, url, "audit"); status == 0 {
			t.Error("the database has tables")
		}
	})
	for _, shards := range []string{"0", "-1", "x", "1025"} {
		if status, out := command(t, sqliteURL(t), "migrate", "--shards="+shards); status != 2 || !strings.Contains(out, "--shards") {
			t.Errorf("migrate --shards=%s: exit status %d, %q", shards, status, out)
		}
	}
}

// onceAs creates a link with an idempotency key.
func (r *running) onceAs(bearer, key, url string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, "http://"+r.Addr().String()+"/shorten", strings.NewReader("url="+url))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("Idempotency-Key", `"`+key+`"`)
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		r.t.Fatal(err)
	}
	return answer{status: resp.StatusCode, header: resp.Header}
}

// Links that exist are distributed in place, and all commands work on distributed tables.
func TestServerAndCommandsOnDistributedTables(t *testing.T) {
	t.Parallel()
	url := testenv.StartCitus(t, 2, "fsync=off").Schema(t)
	server := start(t, settings(t, url, ""))
	bearer, _ := createdToken(t, url, "--name=ci", "--scope=create,read,edit,admin")
	targets := make(map[string]string)
	for i := range 20 {
		target := fmt.Sprintf("https://example.com/%d", i)
		targets[server.shorten(target)] = target
	}
	server.stop()
	for range 2 {
		if status, out := command(t, url, "migrate", "--shards=4"); status != 0 {
			t.Fatalf("migrate --shards=4: exit status %d, %s", status, out)
		}
	}

	server = start(t, settings(t, url, "", "--visits=detail", "--visits-flush=100ms"))
	base := "http://" + server.Addr().String()
	for i := 20; i < 40; i++ {
		target := fmt.Sprintf("https://example.com/%d", i)
		targets[server.shorten(target)] = target
	}
	for code, target := range targets {
		server.wantStatus(code, http.StatusFound, target)
	}
	for i := range 10 {
		key := fmt.Sprintf("key%d", i)
		if a := server.onceAs(bearer, key, "https://example.com/once"); a.status != http.StatusCreated {
			t.Errorf("a creation with an idempotency key: status %d", a.status)
		}
		if a := server.onceAs(bearer, key, "https://example.com/once"); a.status >= 300 || a.header.Get("Idempotent-Replayed") == "" && a.status != http.StatusOK {
			t.Errorf("its repetition: %+v", a)
		}
		if a := server.onceAs(bearer, key, "https://example.com/other"); a.status < 400 {
			t.Errorf("the key with another URL: status %d", a.status)
		}
	}
	if a := server.doAs(bearer, http.MethodPost, base+"/shorten", "url=https://example.com/&alias=visited"); a.status != http.StatusCreated {
		t.Errorf("an alias: %+v", a)
	}
	if a := server.doAs(bearer, http.MethodGet, base+"/api/links?limit=5", ""); a.status != http.StatusOK || !strings.Contains(a.body, "visited") {
		t.Errorf("the list: %+v", a)
	}
	server.wantStatus("visited", http.StatusFound, "https://example.com/")
	server.stop() // stores the visits

	server = start(t, settings(t, url, "", "--visits=detail"))
	if got := server.visitsOf(bearer, "visited"); got.Total.Bot != 1 {
		t.Errorf("the visits of a link: %+v, want 1", got.Total)
	}
	server.stop()
	exported := exportOf(t, url, "ndjson")
	if n := strings.Count(exported, "\n"); n < 51 {
		t.Errorf("%d lines were exported, want 51 links or more", n)
	}
	if status, out := command(t, url, "import", "--from=ndjson", writeLinks(t, strings.ReplaceAll(exported, `"code":"`, `"code":"x-`))); status != 0 {
		t.Errorf("import: exit status %d, %s", status, out)
	}
	for _, args := range [][]string{{"audit"}, {"delete", "visited"}, {"reindex", "--key-source=random"}, {"reindex"}, {"audit"}} {
		if status, out := command(t, url, args...); status != 0 {
			t.Errorf("%s: exit status %d, %s", args, status, out)
		}
	}
	server = start(t, settings(t, url, ""))
	for code, target := range targets {
		server.wantStatus(code, http.StatusFound, target)
	}
	server.wantStatus("visited", http.StatusGone, "")
	server.stop()
	wantFacets(t, url)
}

// wantFacets checks that the details of visits were stored.
func wantFacets(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM visit_facets`).Scan(&n); err != nil || n == 0 {
		t.Errorf("%d details of visits are stored: %v", n, err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
