package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"keypool/web/admin"
)

// personal occurs in the personal data that the tests erase.
const personal = "person-4711"

// send sends a request with headers and returns the status of the answer.
func (r *running) send(method, url, body string, headers ...string) int {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode
}

// isStored reports whether the database contains personal data. For SQLite, it searches the database file and the log. For
// PostgreSQL, it searches the rows of the tables with data of links.
func isStored(t *testing.T, url string) (found bool) {
	t.Helper()
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		for _, file := range []string{path, path + "-wal"} {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || bytes.Contains(text, []byte(personal))
		}
		return found
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	err = conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM all_links AS t WHERE t::text LIKE $1)
		OR EXISTS (SELECT FROM visit_facets AS t WHERE t::text LIKE $1) OR EXISTS (SELECT FROM visits AS t WHERE t::text LIKE $1)
		OR EXISTS (SELECT FROM idempotency_keys AS t WHERE t::text LIKE $1)`, "%"+personal+"%").Scan(&found)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return found
}

// personalLinks creates two links with personal data in every text, changes the URL of the first link, and visits both links.
// It waits until the referrers are stored.
func (r *running) personalLinks(bearer string) {
	r.t.Helper()
	base := "http://" + r.Addr().String()
	for _, alias := range []string{"first", "sec-ond"} {
		body := `{"url":"https://example.com/` + personal + `","alias":"` + alias + `","editable":true,"title":"` + personal + `","tags":["` + personal + `"]}`
		if status := r.send(http.MethodPost, base+"/shorten", body, "Authorization", "Bearer "+bearer,
			"Content-Type", "application/json", "Idempotency-Key", `"0123456789-`+alias+`"`); status != http.StatusCreated {
			r.t.Fatalf("a creation: status %d, want 201", status)
		}
	}
	if status := r.send(http.MethodPatch, base+"/api/links/first", `{"url":"https://example.net/`+personal+`","expires_at":"2099-01-01T00:00:00Z"}`,
		"Authorization", "Bearer "+bearer, "Content-Type", "application/merge-patch+json"); status != http.StatusOK {
		r.t.Fatalf("a change: status %d, want 200", status)
	}
	for _, alias := range []string{"first", "sec-ond"} {
		if status := r.send(http.MethodGet, base+"/"+alias, "", "Referer", "https://"+personal+".example/"); status != http.StatusFound {
			r.t.Fatalf("a visit: status %d, want 302", status)
		}
		r.await("a stored referrer", func(admin.Status) bool { return strings.Contains(r.referrers(bearer, alias), personal) })
	}
}

func (r *running) referrers(bearer, code string) string {
	r.t.Helper()
	return r.doAs(bearer, http.MethodGet, "http://"+r.Addr().String()+"/api/links/"+code+"/visits/referrers", "").body
}

// Links are erased while a server runs. One of the links was deleted before. The database keeps their tombstones with the codes,
// but no personal data. The accounts do not change. An import of the export creates the same tombstones in another database. An
// import of an older export into the same database does not restore the links.
func TestErasedLinksKeepNoPersonalData(t *testing.T) {
	onDatabases(t, func(t *testing.T, url string) {
		r := start(t, settings(t, url, "", "--visits=detail", "--visits-flush=100ms"))
		r.await("a full pool", fullWithBatch)
		bearer, _ := createdToken(t, url, "--name=ci", "--scope=create,read,edit")
		r.personalLinks(bearer)
		if status, out := command(t, url, "delete", "sec-ond"); status != 0 {
			t.Fatalf("delete: exit status %d, %s", status, out)
		}
		older, before := exportOf(t, url, "ndjson"), auditJSON(t, url, "")
		if !isStored(t, url) || strings.Count(older, personal) < 2 {
			t.Fatal("the data to erase are not stored")
		}

		status, out := command(t, url, "delete", "--erase", "first", "sec-ond", "unknown")
		if status != 1 || !strings.Contains(out, "deleted first\ndeleted sec-ond\nerased first\nerased sec-ond\n") || strings.Count(out, "unknown") != 1 {
			t.Errorf("delete --erase: exit status %d, %s", status, out)
		}
		exported := exportOf(t, url, "ndjson")
		if isStored(t, url) || strings.Contains(exported, personal) {
			t.Errorf("personal data are still in the database, or in the export\n%s", exported)
		}
		for _, code := range []string{"first", "sec-ond"} {
			r.wantStatus(code, http.StatusGone, "")
			a := r.doAs(bearer, http.MethodGet, "http://"+r.Addr().String()+"/api/links/"+code, "")
			if a.status != http.StatusOK || !strings.Contains(a.body, `"url":"https://erased.invalid/"`) || strings.Contains(a.body, personal) {
				t.Errorf("the erased link %s: %+v", code, a)
			}
			if got := r.referrers(bearer, code); strings.Contains(got, personal) {
				t.Errorf("the referrers of the erased link %s are %s", code, got)
			}
			if page := r.do(http.MethodGet, r.AdminURL()+"/links/code/"+code, ""); page.status != http.StatusOK || strings.Contains(page.body, personal) {
				t.Errorf("the page of the erased link %s: %+v", code, page)
			}
			if status, out := command(t, url, "explain", code); status != 0 || strings.Contains(out, personal) {
				t.Errorf("explain: exit status %d, %s", status, out)
			}
			if status, out := command(t, url, "delete", "--erase", code); status != 0 {
				t.Errorf("a second erasure: exit status %d, %s", status, out)
			}
		}
		if diff := cmp.Diff(exported, exportOf(t, url, "ndjson")); diff != "" {
			t.Errorf("a second erasure changes the links (-first +second):\n%s", diff)
		}
		if after := auditJSON(t, url, ""); after.status != 0 || after.Linked != before.Linked {
			t.Errorf("the audit after the erasure is %+v, want %+v", after, before)
		}

		if status, out := command(t, url, "import", "--from=ndjson", writeLinks(t, older)); status != 1 || !strings.Contains(out, "2 refused") {
			t.Errorf("the import of an older export: exit status %d, %s", status, out)
		}
		if isStored(t, url) {
			t.Error("the import of an older export restores personal data")
		}
		target := migrated(t, sqliteURL(t))
		createdToken(t, target, "--name=ci", "--scope=create")
		if status, out := command(t, target, "import", "--from=ndjson", writeLinks(t, exported)); status != 0 {
			t.Errorf("import: exit status %d, %s", status, out)
		}
		if diff := cmp.Diff(exported, exportOf(t, target, "ndjson")); diff != "" {
			t.Errorf("the export of the import (-want +got):\n%s", diff)
		}
		other := start(t, settings(t, target, ""))
		other.wantStatus("first", http.StatusGone, "")
		other.wantStatus("sec-ond", http.StatusGone, "")
	})
}

// If the command `delete` is interrupted while servers may still redirect to the link, the command fails. The link is
// deleted nevertheless.
func TestInterruptedDeleteCommandExitsWithError(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	r := start(t, settings(t, url, ""))
	r.await("a full pool", fullWithBatch)
	for _, flags := range [][]string{nil, {"--erase"}} {
		code := r.shorten("https://example.com/")
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		var errs bytes.Buffer
		out := cancelWriter{cancel}
		status := Run(ctx, slices.Concat([]string{"--database-url=" + url, "delete"}, flags, []string{code}), out, &errs)
		want := []string{"servers may still redirect"}
		if flags != nil {
			want = append(want, `erase "`+code+`"`, "run the command again")
		}
		for _, text := range want {
			if status != 1 || !strings.Contains(errs.String(), text) {
				t.Errorf("an interrupted delete %v: exit status %d, stderr %q; want 1 and %q", flags, status, &errs, text)
			}
		}
		r.await("the deletion", func(admin.Status) bool {
			return r.do(http.MethodGet, "http://"+r.Addr().String()+"/"+code, "").status == http.StatusGone
		})
	}
}

// cancelWriter calls cancel when the command prints its first line.
type cancelWriter struct{ cancel func() }

// Write implements [io.Writer].
func (c cancelWriter) Write(p []byte) (int, error) {
	c.cancel()
	return len(p), nil
}
