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

// answered repeats a request while the service is unavailable, because a busy machine may be too slow for the time limits of a server.
func answered(t *testing.T, send func() answer) (a answer) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-tick.C {
		if a = send(); a.status != http.StatusServiceUnavailable {
			return a
		}
	}
	t.Errorf("the service was unavailable for 30 s: %+v", a)
	return a
}

// wantLinks checks that codes lead to their targets.
func (r *running) wantLinks(targets map[string]string) {
	r.t.Helper()
	for code, target := range targets {
		a := answered(r.t, func() answer { return r.do(http.MethodGet, "http://"+r.Addr().String()+"/"+code, "") })
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
		a := answered(r.t, func() answer { return r.do(http.MethodPost, "http://"+r.Addr().String()+"/shorten", "url="+target) })
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

// The command migrate distributes the tables with the links that they contain. All commands work on
// distributed tables.
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
		if a := answered(t, func() answer { return server.onceAs(bearer, key, "https://example.com/once") }); a.status != http.StatusCreated {
			t.Errorf("a creation with an idempotency key: status %d, want 201", a.status)
		}
		if a := server.onceAs(bearer, key, "https://example.com/once"); a.status != http.StatusCreated || a.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("a repetition with the same idempotency key: %+v, want a replayed answer", a)
		}
		if a := server.onceAs(bearer, key, "https://example.com/other"); a.status < 400 {
			t.Errorf("a creation with the idempotency key of another URL: status %d, want 400 or more", a.status)
		}
	}
	alias := func() answer {
		return server.doAs(bearer, http.MethodPost, base+"/shorten", "url=https://example.com/&alias=visited")
	}
	if a := answered(t, alias); a.status != http.StatusCreated {
		t.Errorf("a creation with an alias: %+v, want status 201", a)
	}
	list := func() answer { return server.doAs(bearer, http.MethodGet, base+"/api/links?limit=5", "") }
	if a := answered(t, list); a.status != http.StatusOK || !strings.Contains(a.body, "visited") {
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
	for _, args := range [][]string{{"audit"}, {"delete", "visited"}, {"reindex", "--key-source=random"}, {"reindex"}, {"audit"}} {
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
