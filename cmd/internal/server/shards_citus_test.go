//go:build citus

package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"keypool/internal/testenv"
)

// wantLinks checks that codes lead to their targets.
func (r *running) wantLinks(targets map[string]string) {
	r.t.Helper()
	for code, target := range targets {
		a := r.do(http.MethodGet, "http://"+r.Addr().String()+"/"+code, "")
		if a.status != http.StatusFound || a.header.Get("Location") != target {
			r.t.Errorf("GET /%s: %+v, want 302 to %q", code, a, target)
		}
	}
}

// shortenAll creates n links and adds them to targets.
func (r *running) shortenAll(n int, targets map[string]string) {
	r.t.Helper()
	for range n {
		target := fmt.Sprintf("https://example.com/%d", len(targets))
		a := r.do(http.MethodPost, "http://"+r.Addr().String()+"/shorten", "url="+target)
		var made struct{ Code string }
		if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.status != http.StatusCreated {
			r.t.Fatalf("POST /shorten: %+v", a)
		}
		targets[made.Code] = target
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

// The command migrate distributes the tables with the links that they contain. The server and the commands that this test
// runs work on distributed tables.
func TestServerAndCommandsWorkOnCitus(t *testing.T) {
	t.Parallel()
	url := testenv.StartCitus(t, 2, "fsync=off").Schema(t)
	server := start(t, settings(t, url, ""))
	bearer, _ := createdToken(t, url, "--name=ci", "--scope=create,read,edit,admin")
	targets := make(map[string]string)
	server.shortenAll(20, targets)
	server.stop()
	for range 2 {
		if status, out := command(t, url, "migrate", "--shards=4"); status != 0 {
			t.Fatalf("migrate --shards=4: exit status %d, %s", status, out)
		}
	}

	server = start(t, settings(t, url, "", "--visits=detail", "--visits-flush=100ms"))
	base := "http://" + server.Addr().String()
	server.shortenAll(20, targets)
	server.wantLinks(targets)
	for i := range 10 {
		key := fmt.Sprintf("idempotency-key-%d", i)
		if a := answered(func() answer { return server.onceAs(bearer, key, "https://example.com/once") }); a.status != http.StatusCreated {
			t.Errorf("a creation with an idempotency key: status %d, want 201", a.status)
		}
		if a := server.onceAs(bearer, key, "https://example.com/once"); a.status != http.StatusCreated || a.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("a repetition with the same idempotency key: %+v, want a replayed answer", a)
		}
		if a := server.onceAs(bearer, key, "https://example.com/other"); a.status < 400 {
			t.Errorf("a creation with the idempotency key of another URL: status %d, want 400 or more", a.status)
		}
	}
	if a := server.doAs(bearer, http.MethodPost, base+"/shorten", "url=https://example.com/&alias=visited"); a.status != http.StatusCreated {
		t.Errorf("a creation with an alias: %+v, want status 201", a)
	}
	if a := server.doAs(bearer, http.MethodGet, base+"/api/links?limit=5", ""); a.status != http.StatusOK || !strings.Contains(a.body, "visited") {
		t.Errorf("the list of links: %+v, want status 200 and the alias", a)
	}
	server.wantLinks(map[string]string{"visited": "https://example.com/"})
	server.stop() // stores the visits

	server = start(t, settings(t, url, "", "--visits=detail"))
	if got := server.visitsOf(bearer, "visited"); got.Total.Bot != 1 {
		t.Errorf("the visits of a link: %+v, want one visit of a bot", got.Total)
	}
	server.stop()
	exported := exportOf(t, url, "ndjson")
	if n := strings.Count(exported, "\n"); n < 51 {
		t.Errorf("%d lines were exported, want 51 links or more", n)
	}
	if status, out := command(t, url, "import", "--from=ndjson", writeLinks(t, strings.ReplaceAll(exported, `"code":"`, `"code":"x-`))); status != 0 {
		t.Errorf("import: exit status %d, %s", status, out)
	}
	for _, args := range [][]string{{"audit"}, {"delete", "--erase", "visited"}, {"reindex", "--key-source=random"}, {"reindex"}, {"audit"}} {
		if status, out := command(t, url, args...); status != 0 {
			t.Errorf("%s: exit status %d, %s", args, status, out)
		}
	}
	server = start(t, settings(t, url, ""))
	server.wantLinks(targets)
	server.wantStatus("visited", http.StatusGone, "")
	server.stop()
	wantFacets(t, url)
}

// wantFacets checks that the details of visits are in the database, except those of the link that was erased.
func wantFacets(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM visit_facets WHERE code <> 'visited'`).Scan(&n); err != nil || n == 0 {
		t.Errorf("%d details of visits are stored: %v", n, err)
	}
	err = conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM visit_facets WHERE code = 'visited' AND human + bot > 0)
		+ (SELECT count(*) FROM all_links WHERE code = 'visited' AND url <> 'https://erased.invalid/')`).Scan(&n)
	if err != nil || n != 0 {
		t.Errorf("%d rows of the erased link are not erased: %v", n, err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// The ledger and the tokens are only on the coordinator, so DATABASE_URL must not lead to a worker.
func TestCommandsRefuseWorkerOfCitus(t *testing.T) {
	t.Parallel()
	worker := testenv.StartCitus(t, 1, "fsync=off").Workers[0].URL
	for _, args := range [][]string{{"migrate"}, {"migrate", "--shards=4"}, {"serve"}, {"audit"}} {
		status, out := command(t, worker, args...)
		if status != 2 || !strings.Contains(out, "DATABASE_URL") || !strings.Contains(out, "the coordinator") || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: exit status %d, %q, want 2 and one line that names DATABASE_URL and the coordinator", args, status, out)
		}
	}
	if n := tablesOf(t, worker); n > 0 {
		t.Errorf("the worker has %d tables, want none", n)
	}
}

// tablesOf returns the number of tables in the schema public.
func tablesOf(t *testing.T, database string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestMigrateRequiresCitusNodeForShards(t *testing.T) {
	t.Parallel()
	coordinator := testenv.StartCitus(t, 0, "fsync=off").Coordinator.URL
	status, out := command(t, coordinator, "migrate", "--shards=4")
	if status == 0 || !strings.Contains(out, "citus_add_node") || strings.Count(out, "\n") != 1 {
		t.Errorf("migrate --shards=4 without workers: exit status %d, %q, want one line that names citus_add_node", status, out)
	}
	if n := tablesOf(t, coordinator); n > 0 {
		t.Errorf("the coordinator has %d tables, want none", n)
	}
	conn, err := pgx.Connect(t.Context(), coordinator)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), `SELECT citus_set_node_property(nodename, nodeport, 'shouldhaveshards', true) FROM pg_dist_node`); err != nil {
		t.Fatal(err)
	}
	if status, out := command(t, coordinator, "migrate", "--shards=4"); status != 0 || !strings.Contains(out, "has no workers") {
		t.Errorf("migrate --shards=4 with all shards on the coordinator: exit status %d, %q, want a warning", status, out)
	}
}

// Citus waits 30 s for a connection to a worker, but an audit must end within 20 s.
func TestAuditEndsIfCitusWorkerIsSuspended(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCitus(t, 2, "fsync=off")
	url := cluster.Schema(t)
	if status, out := command(t, url, "migrate", "--shards=4"); status != 0 {
		t.Fatalf("migrate --shards=4: exit status %d, %s", status, out)
	}
	server := start(t, settings(t, url, ""))
	server.shortenAll(1, make(map[string]string))
	server.stop()
	cluster.Workers[0].Pause()
	defer cluster.Workers[0].Resume()
	began := time.Now()
	status, out := command(t, url, "audit")
	if took := time.Since(began); status != 2 || took > 20*time.Second || !strings.Contains(out, "a worker of the Citus cluster did not answer") {
		t.Errorf("audit: exit status %d after %v, %q, want 2 within 20 s and an error about a worker", status, took, out)
	}
}
